"""Files that a repository names: those inside its root are read, and no others."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reconciler.files import FileRefused, Root, check_place, read_private, write_private
from reconciler.manifests.source_files import SourceError, find_source_files


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A directory with a file in it, and one beside it."""
    (tmp_path / "root" / "below").mkdir(parents=True)
    (tmp_path / "root" / "a.txt").write_text("inside")
    (tmp_path / "a.txt").write_text("outside")
    return Root(tmp_path / "root")


def refusal(root: Root, name: str, folder: str = "", at_most: int = 100, endings: str = "") -> FileRefused:
    """Why a file is not read."""
    with pytest.raises(FileRefused) as refused:
        root.read(name, folder, at_most=at_most, endings=endings)
    return refused.value


def test_reads_a_file_from_a_folder(root: Root) -> None:
    """Relative to the folder that names it, or absolute."""
    assert root.read("a.txt", at_most=100) == b"inside"
    assert root.read("../a.txt", "below", at_most=100) == b"inside"
    assert root.read(str(root.path / "a.txt"), at_most=100) == b"inside"


@pytest.mark.parametrize(
    "name", ["../a.txt", "below/../../a.txt", "/etc/hostname", "../root-beside/a.txt", ".."]
)
def test_what_is_outside_is_refused(root: Root, name: str) -> None:
    """Also a directory whose name begins with that of the root."""
    (root.path.parent / "root-beside").mkdir()
    (root.path.parent / "root-beside" / "a.txt").write_text("outside")

    assert refusal(root, name).code == "outside"
    assert str(refusal(root, name)) == f"`{name}` is outside the repository, and only files in it are read"


def test_a_folder_that_is_a_link_is_followed_as_far_as_the_root(root: Root) -> None:
    """In the middle of a path as at its end."""
    (root.path / "in").symlink_to("below/..")
    (root.path / "out").symlink_to(root.path.parent)
    (root.path / "link").symlink_to("in/a.txt")

    assert root.read("in/a.txt", at_most=100) == b"inside"
    assert root.read("link", at_most=100) == b"inside"
    assert refusal(root, "out/a.txt").code == "outside"
    assert refusal(root, "a.txt", "out").reason == (
        "leads out of the repository through a symbolic link; put the file itself there"
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("none", "no-file"),
        ("below", "not-regular"),
        ("dangling", "no-file"),
        ("a\0b", "unreadable"),
        ("x" * 300, "unreadable"),
        ("", "not-regular"),
        ("a.txt/b", "unreadable"),
        ("\udcff", "no-file"),
        ("\ud800", "unreadable"),
    ],
)
def test_says_what_is_wrong(root: Root, name: str, code: str) -> None:
    """One exception, whatever the system says."""
    (root.path / "dangling").symlink_to("nothing")
    assert refusal(root, name).code == code


def test_size_has_a_limit(root: Root) -> None:
    """To the byte."""
    assert root.read("a.txt", at_most=6) == b"inside"
    assert refusal(root, "a.txt", at_most=5).reason == "is larger than 5 bytes, the most that is read"


def test_a_file_that_says_it_is_empty_has_a_limit_too(tmp_path: Path) -> None:
    """As those of the system do, which are read where the user names their directory."""
    status = Root("/proc/self")
    assert status.read("status", at_most=100_000).startswith(b"Name:")
    assert refusal(status, "status").code == "too-large"


def test_hidden_files_are_read_where_their_directory_was_named(root: Root) -> None:
    """Somebody may keep a configuration in `.github`; a link to there is not the same as naming it."""
    (root.path / ".ci" / "more").mkdir(parents=True)
    (root.path / ".ci" / "a.txt").write_text("visible")
    (root.path / ".ci" / "more" / ".b.txt").write_text("hidden")
    (root.path / "link.txt").symlink_to(".ci/a.txt")

    assert refusal(root, ".ci/a.txt").code == "hidden"
    assert refusal(root, "link.txt").code == "hidden"
    named = Root(root.path, [root.path / ".ci"])
    assert named.read(".ci/a.txt", at_most=100) == b"visible"
    assert refusal(named, ".ci/more/.b.txt").code == "hidden"
    assert Root(root.path, hidden=True).read(".ci/more/.b.txt", at_most=100) == b"hidden"


def test_a_named_directory_does_not_make_the_root_larger(root: Root) -> None:
    """What is named outside is outside."""
    assert refusal(Root(root.path, [root.path.parent]), "../a.txt").code == "outside"


def test_an_ending_holds_for_the_file_and_for_what_it_links_to(root: Root) -> None:
    """A name is not what decides what a file is."""
    (root.path / "b.cedar").symlink_to("a.txt")
    assert refusal(root, "a.txt", endings=".cedar").code == "ending"
    assert refusal(root, "b.cedar", endings=".cedar").code == "ending"
    (root.path / "a.cedar").write_text("a policy")
    assert root.read("a.cedar", at_most=100, endings=".cedar") == b"a policy"


class TestNamedPaths:
    """What the command line names is found in its repository, as it is spelled."""

    @pytest.fixture
    def repository(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        made = tmp_path / "repository"
        (made / ".git").mkdir(parents=True)
        (made / "config").mkdir()
        (made / "config" / "a.yaml").write_text("a: 1\n")
        monkeypatch.chdir(made)
        return made

    def test_a_hidden_directory_may_be_named(self, repository: Path) -> None:
        """But not through a link that somebody could have put there."""
        (repository / ".ci").mkdir()
        (repository / ".ci" / "b.yaml").write_text("b: 1\n")
        (repository / "link").symlink_to(".ci")
        found = find_source_files([".ci"])
        assert found.files == (str(repository / ".ci" / "b.yaml"),)
        assert found.opener.read(found.files[0], at_most=100) == b"b: 1\n"

        with pytest.raises(SourceError, match="is hidden"):
            find_source_files(["link"])

    def test_a_link_within_the_repository_is_followed(self, repository: Path) -> None:
        """Also from a directory below, out of that directory."""
        (repository / "sub").mkdir()
        (repository / "sub" / "link").symlink_to("../config")
        os.chdir(repository / "sub")

        found = find_source_files(["link"])

        assert (found.root, found.named) == (repository, (repository / "config",))

    def test_a_link_of_the_users_own_is_followed(
        self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Outside any repository a link is nobody else's: to a repository, into one, or to a directory."""
        links = tmp_path / "links"
        links.mkdir()
        (links / "whole").symlink_to(repository)
        (links / "part").symlink_to(repository / "config")
        found = [find_source_files([path]) for path in (links / "whole" / "config", links / "part")]
        one = (repository, (str(repository / "config" / "a.yaml"),))
        assert [(each.root, each.files) for each in found] == [one, one]

        monkeypatch.chdir(links)  # where it could be somebody's who proposed it
        with pytest.raises(SourceError, match="leads out of"):
            find_source_files(["part"])

    def test_paths_of_two_repositories_are_not_one_configuration(
        self, repository: Path, tmp_path: Path
    ) -> None:
        """Their common directory is no boundary that anybody has drawn."""
        other = tmp_path / "other"
        (other / ".git").mkdir(parents=True)
        (other / "b.yaml").write_text("b: 1\n")
        assert find_source_files([repository / "config", repository / "config" / "a.yaml"]).root == repository

        with pytest.raises(SourceError, match="different repositories"):
            find_source_files([repository / "config", other])

    def test_paths_without_anything_in_common_are_refused(self, tmp_path: Path) -> None:
        """Else every file of the machine would lie inside."""
        with pytest.raises(SourceError, match="no directory in common"):
            find_source_files([tmp_path, "/usr"])

    def test_a_repository_in_a_repository_is_one_of_its_own(self, repository: Path) -> None:
        """As a submodule is."""
        (repository / "config" / ".git").mkdir()
        assert find_source_files(["config"]).root == repository / "config"
        assert find_source_files(["config", "."]).root == repository


@pytest.mark.parametrize("closed", ["closed", "."])
def test_a_directory_that_cannot_be_read_is_an_error(closed: str) -> None:
    """What is not seen would be deleted. Asked as a user whom permissions stop."""
    code = (
        "import os, sys\n"
        "from reconciler.manifests.source_files import SourceError, find_source_files\n"
        "given, closed = sys.argv[1:]\n"
        "assert len(find_source_files([given]).files) == 1\n"
        "os.chmod(closed, 0)\n"
        "if os.geteuid() == 0:\n"
        "    os.setresuid(65534, 65534, 0)\n"
        "try:\n"
        "    find_source_files([given])\n"
        "except SourceError as error:\n"
        "    print(error)\n"
    )
    # pytest's own folders are closed to other users at several levels.
    with tempfile.TemporaryDirectory() as made:
        folder, asked = Path(made), Path(made) / "above" / "config"
        (asked / "closed").mkdir(parents=True)
        (asked / "closed" / "a.yaml").write_text("a: 1\n")
        folder.chmod(0o755)
        shut = asked / "closed" if closed == "closed" else folder / "above"
        try:
            done = subprocess.run(
                [sys.executable, "-c", code, asked, shut],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        finally:
            shut.chmod(0o755)
    unseen = asked / "closed" if closed == "closed" else asked
    assert done.stdout == f"`{unseen}` cannot be read: Permission denied\n", done.stderr


class TestOwnFiles:
    def test_are_written_for_this_user_and_replace_a_link(self, tmp_path: Path) -> None:
        """What the link leads to stays as it is."""
        (tmp_path / "target").write_text("before")
        (tmp_path / "file").symlink_to("target")
        write_private(tmp_path / "file", b"now")

        assert read_private(tmp_path / "file") == b"now"
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "target").read_text() == "before"

    def test_are_not_read_through_a_link_or_from_others(self, tmp_path: Path) -> None:
        """Whoever could write them decides what is in them."""
        write_private(tmp_path / "file", b"mine")
        (tmp_path / "link").symlink_to("file")
        assert read_private(tmp_path / "file") == b"mine"
        with pytest.raises(OSError, match="link"):
            read_private(tmp_path / "link")
        (tmp_path / "file").chmod(0o620)
        with pytest.raises(PermissionError, match="other users can write"):
            read_private(tmp_path / "file")
        os.mkfifo(tmp_path / "fifo", 0o600)
        with pytest.raises(PermissionError, match="not a regular file"):
            read_private(tmp_path / "fifo")
        if os.geteuid() == 0:
            (tmp_path / "file").chmod(0o600)
            os.chown(tmp_path / "file", 65534, 65534)
            with pytest.raises(PermissionError, match="another user"):
                read_private(tmp_path / "file")

    def test_a_place_outside_the_repository_may_be_a_link(self, root: Root, tmp_path: Path) -> None:
        """Standard output, for one; only links in the repository may be somebody else's."""
        (tmp_path / "elsewhere").symlink_to(tmp_path / "a.txt")
        (root.path / "link").symlink_to("a.txt")
        check_place(tmp_path / "elsewhere", root)
        check_place(Path("/dev/stdout"), root)
        check_place(root.path / "new", root)

        with pytest.raises(FileRefused):
            check_place(root.path / "link", root)
