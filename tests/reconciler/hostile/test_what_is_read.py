"""An untrusted repository cannot read files or variables of the machine that plans it."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reconciler.fake_server import API_KEY, FakeServer, World
from tests.reconciler.hostile.conftest import CANARY, Repository

from reconciler.exit_codes import CHANGES, REFUSED, USAGE

HEAD = "apiVersion: zonewright/v1\n"
POLICY = HEAD + "kind: Policy\nmetadata: {zone: workforce, name: p}\nspec: {cedar_file: NAME}\n"
PROVIDER = (
    HEAD + "kind: Provider\nmetadata: {zone: workforce, name: okta}\n"
    "spec: {name: Okta, identifier: https://okta.example, client_secret: {from_file: NAME}}\n"
)
CEDAR = "permit (principal, action, resource);\n"
GIB = 1024**3


def outside(repository: Repository, name: str, text: str = f"{CANARY}: [\n") -> Path:
    """A file of the user's that is none of the repository's business."""
    file = repository.machine / "outside" / name
    file.write_text(text)
    return file


class Attempt:
    """What one way to name a file came to, by every command that might read it."""

    def __init__(self, repository: Repository, server: FakeServer, world: World) -> None:
        self.repository, self.server, self.world = repository, server, world

    def validates(self, *named: str) -> bool:
        """Tell whether `validate` takes it."""
        return self.repository.run("validate", *(named or ["config"])).returncode == 0

    def refused(self, *messages: str, code: int = 1, every: bool = False) -> None:
        """The commands, *every* one or two of them, refuse, say which file, show and send nothing of it."""
        self.server.requests.clear()
        commands = [("validate", "config", "--output", "json"), ("plan", "config")]
        if every:
            commands += [("validate", "config"), ("drift", "config"), ("apply", "config", "--yes")]
        for arguments in commands:
            done = self.repository.run(*arguments)
            said = done.stdout + done.stderr
            assert done.returncode == code, said
            assert not [message for message in messages if message not in said]
            assert CANARY not in said
            assert API_KEY not in said
        assert not self.server.requests

    def secret_refused(self, *messages: str, options: tuple[str, ...] = ()) -> None:
        """A plan says that it cannot be applied, and an apply sends nothing that changes anything."""
        self.server.bodies.clear()
        for command in (("plan", "config", "--output", "json"), ("apply", "config", "--yes")):
            arguments = (*command, *options)
            done = self.repository.run(*arguments)
            said = done.stdout + done.stderr
            assert done.returncode in ((1, REFUSED) if "apply" in arguments else (REFUSED, CHANGES)), said
            if "apply" in arguments:
                assert not [message for message in messages if message not in said]
            assert CANARY not in said
            assert API_KEY not in said
        sent = json.dumps(self.server.bodies)
        assert CANARY not in sent
        assert API_KEY not in sent
        assert not self.world.entities


@pytest.fixture
def attempt(trusting: Repository, server: FakeServer, world: World) -> Attempt:
    """The repository, with a server that would take what it describes."""
    return Attempt(trusting, server, world)


@pytest.mark.threat("38a")
@pytest.mark.threat("38k")
@pytest.mark.threat("38l")
@pytest.mark.parametrize("target", ["file", "/proc/self/environ", "relative", "chain"])
def test_a_manifest_that_leads_out(attempt: Attempt, target: str) -> None:
    """A link inside the repository is followed; one that leads out is refused with its path, not read."""
    file = outside(attempt.repository, "kubeconfig.yaml")
    attempt.repository.write("common/role.yaml", HEAD + "kind: Role\nmetadata: {zone: workforce, name: r}\n")
    attempt.repository.link("config/x.yaml", "../common/role.yaml")
    assert attempt.validates()
    (attempt.repository.config / "x.yaml").unlink()

    if target == "chain":
        attempt.repository.link("common/y.yaml", file)
        attempt.repository.link("config/x.yaml", "../common/y.yaml")
    else:
        where = {"file": str(file), "relative": os.path.relpath(file, attempt.repository.config)}
        attempt.repository.link("config/x.yaml", where.get(target, target))

    attempt.refused("config/x.yaml", "leads out of the repository through a symbolic link", every=True)


@pytest.mark.threat("38a")
@pytest.mark.parametrize("target", ["file", "/proc/self/environ"])
def test_a_manifest_that_leads_out_and_is_named_itself(attempt: Attempt, target: str) -> None:
    """As where a job validates each changed file by its name."""
    assert attempt.validates("config/zone.yaml")
    file = outside(attempt.repository, "kubeconfig.yaml")
    attempt.repository.link("config/x.yaml", file if target == "file" else target)

    done = attempt.repository.run("validate", "config/x.yaml")
    assert done.returncode == 1
    assert "config/x.yaml: error: leads out of the repository" in done.stdout
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.threat("38a")
@pytest.mark.parametrize("repository_of_git", [True, False])
def test_a_directory_that_leads_out(attempt: Attempt, repository_of_git: bool) -> None:
    """The directory that is planned is exchanged for a link: to a directory, or to another repository."""
    if not repository_of_git:  # as some checkouts are
        (attempt.repository.path / ".git" / "HEAD").unlink()
        (attempt.repository.path / ".git").rmdir()
    assert attempt.validates()
    target = attempt.repository.machine / "outside"
    outside(attempt.repository, "kubeconfig.yaml")
    (target / ".git").mkdir()
    attempt.repository.config.rename(attempt.repository.path / "before")
    attempt.repository.link("config", target)

    attempt.refused("leads out of", "config", code=USAGE)
    attempt.repository.link("before/below", target)
    (target / "sub").mkdir()
    done = attempt.repository.run("validate", "before/below/sub")
    assert done.returncode == USAGE
    assert "leads out of" in done.stderr


@pytest.mark.threat("38a")
@pytest.mark.parametrize("name", [".git/config", ".npmrc", ".secrets/kubeconfig.yaml"])
def test_a_manifest_that_leads_to_what_is_hidden(attempt: Attempt, name: str) -> None:
    """A checkout holds tokens, too: what has a name that begins with a dot is not read."""
    attempt.repository.write(name, f"{CANARY}: [\n")
    assert attempt.validates()
    attempt.repository.link("config/x.yaml", attempt.repository.path / name)

    attempt.refused("config/x.yaml", "is hidden" if name.endswith(".yaml") else "x.yaml")


@pytest.mark.threat("38a")
def test_a_manifest_that_leads_to_another_kind_of_file(attempt: Attempt) -> None:
    """Nor is what an earlier step of the job has put beside the configuration shown as a broken manifest."""
    attempt.repository.write("credentials.json", f'{{"{CANARY}": 1')
    assert attempt.validates()
    attempt.repository.link("config/x.yaml", "../credentials.json")

    attempt.refused("config/x.yaml", "does not end with `.yaml` or `.yml`")


@pytest.mark.threat("38a")
def test_settings_that_lead_out(attempt: Attempt) -> None:
    """zonectl.yaml is a file like the others."""
    settings = attempt.repository.config / "zonectl.yaml"
    attempt.repository.write("common.yaml", settings.read_text())
    settings.unlink()
    attempt.repository.link("config/zonectl.yaml", "../common.yaml")
    assert attempt.repository.run("plan", "config").returncode == CHANGES
    attempt.server.requests.clear()
    settings.unlink()
    attempt.repository.link(
        "config/zonectl.yaml", outside(attempt.repository, "x.yaml", f"owner: {CANARY}\n")
    )

    done = attempt.repository.run("plan", "config")

    assert done.returncode == USAGE
    assert "config/zonectl.yaml: leads out of the repository" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert not attempt.server.requests


NAMES: dict[str, Callable[[Repository, Path], str]] = {
    "link": lambda repository, file: repository.link(f"config/x{file.suffix}", file) or f"x{file.suffix}",
    "folder": lambda repository, file: repository.link("links", file.parent) or f"../links/{file.name}",
    "up": lambda repository, file: os.path.relpath(file, repository.config),
    "up through a file": lambda repository, file: f"zone.yaml/../{os.path.relpath(file, repository.config)}",
    "absolute": lambda repository, file: str(file),
}


@pytest.mark.threat("38b")
@pytest.mark.threat("38g")
@pytest.mark.threat("38h")
@pytest.mark.threat("38l")
@pytest.mark.parametrize("way", NAMES)
def test_a_policy_outside_the_repository_is_refused(attempt: Attempt, way: str) -> None:
    """`cedar_file` of the repository is put in; one outside is refused, however it is named."""
    attempt.repository.write("policies/inside.cedar", CEDAR)
    attempt.repository.write("config/p.yaml", POLICY.replace("NAME", "../policies/inside.cedar"))
    assert attempt.validates()
    name = NAMES[way](attempt.repository, outside(attempt.repository, "secret.cedar", CANARY))
    attempt.repository.write("config/p.yaml", POLICY.replace("NAME", name))

    attempt.refused("config/p.yaml", f"`{name}`", "repository")


@pytest.mark.threat("38b")
@pytest.mark.parametrize("name", ["../.git/config", "../.env", "../credentials.json", "zonectl.yaml"])
def test_a_policy_that_is_something_else(attempt: Attempt, name: str) -> None:
    """The plan would show the text of whatever the checkout holds: only visible policies are read."""
    attempt.repository.write("config/a.cedar", CEDAR)
    attempt.repository.write("config/p.yaml", POLICY.replace("NAME", "a.cedar"))
    assert attempt.validates()
    if not (attempt.repository.config / name).exists():
        attempt.repository.write(f"config/{name}", CANARY)
    attempt.repository.write("config/p.yaml", POLICY.replace("NAME", name))
    attempt.refused(f"`{name}`")

    (attempt.repository.config / "a.cedar").unlink()
    attempt.repository.link("config/a.cedar", name)
    attempt.repository.write("config/p.yaml", POLICY.replace("NAME", "a.cedar"))
    attempt.refused("`a.cedar`")


@pytest.mark.threat("38c")
@pytest.mark.threat("38g")
@pytest.mark.threat("38h")
@pytest.mark.threat("38l")
@pytest.mark.parametrize("way", NAMES)
def test_a_secret_outside_the_repository_is_refused(attempt: Attempt, way: str) -> None:
    """`from_file` reads the repository; a file outside goes to no provider, however it is named."""
    name = NAMES[way](attempt.repository, outside(attempt.repository, "token.txt", CANARY))
    attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", name))
    attempt.secret_refused(f"{name}`", "repository", "Provider workforce/okta", "`--secrets-from`")

    attempt.repository.write("secrets/okta.txt", "from the repository\n")
    attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", "../secrets/okta.txt"))
    assert attempt.repository.run("apply", "config", "--yes").returncode == 0
    assert list(attempt.world.secrets.values()) == ["from the repository"]


class TestDirectoryOfSecrets:
    """`--secrets-from` names a directory outside the repository from which secrets are read."""

    @pytest.fixture
    def mounted(self, attempt: Attempt) -> Path:
        """Such a directory, as Kubernetes mounts it, with one link that leads out of it."""
        mounted = attempt.repository.machine / "outside" / "secrets"
        (mounted / "..data").mkdir(parents=True)
        (mounted / "..data" / "okta").write_text("mounted\n")
        (mounted / "okta").symlink_to("..data/okta")
        (mounted / "out").symlink_to(outside(attempt.repository, "token.txt", CANARY))
        return mounted

    def test_files_in_it_are_read_through_links_within_it(self, attempt: Attempt, mounted: Path) -> None:
        """Kubernetes replaces mounted secrets by exchanging such a link."""
        attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", str(mounted / "okta")))
        assert attempt.repository.run("plan", "config", "--secrets-from", mounted).returncode == CHANGES
        done = attempt.repository.run("apply", "config", "--yes", "--secrets-from", mounted)
        assert done.returncode == 0
        assert list(attempt.world.secrets.values()) == ["mounted"]

    def test_a_link_out_of_it_is_not_followed(self, attempt: Attempt, mounted: Path) -> None:
        """Naming a directory allows that directory alone."""
        attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", str(mounted / "out")))
        done = attempt.repository.run("apply", "config", "--yes", "--secrets-from", mounted)
        assert done.returncode == REFUSED
        assert not attempt.world.entities

    def test_it_is_not_reached_through_a_link_in_the_repository(
        self, attempt: Attempt, mounted: Path
    ) -> None:
        """Otherwise a branch would choose the directory."""
        attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", str(mounted / "out")))
        attempt.repository.link("secrets", "/")
        linked = attempt.repository.run("apply", "config", "--yes", "--secrets-from", "secrets")
        assert linked.returncode == REFUSED
        assert "symbolic link in the repository" in linked.stderr
        assert not attempt.world.entities


SPECIAL: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "directory": lambda path: path.mkdir(),
    "huge": lambda path: path.touch() or os.truncate(path, 50 * GIB),
    "circle": lambda path: path.symlink_to(path),
}


def device(path: Path) -> None:
    """A device without an end, where this user may make one."""
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
        with path.open("rb") as stream:
            stream.read(1)
    except OSError:
        path.unlink(missing_ok=True)
        pytest.skip("only a privileged user makes devices")


SPECIAL["device"] = device


@pytest.mark.threat("38e")
@pytest.mark.threat("38f")
@pytest.mark.threat("38i")
@pytest.mark.threat("38m")
@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("role", ["manifest", "policy", "secret", "settings"])
def test_what_is_no_ordinary_file(attempt: Attempt, what: str, role: str) -> None:
    """It is neither waited for nor read into memory; the message names it."""
    attempt.repository.write("config/a.cedar", CEDAR)
    attempt.repository.write("config/policy.yaml", POLICY.replace("NAME", "a.cedar"))
    attempt.repository.write("config/okta.txt", "a secret\n")
    attempt.repository.write("config/provider.yaml", PROVIDER.replace("NAME", "okta.txt"))
    attempt.repository.write("config/role.yaml", HEAD + "kind: Role\nmetadata: {zone: workforce, name: r}\n")
    assert attempt.repository.run("plan", "config").returncode == CHANGES
    name = {"manifest": "role.yaml", "policy": "a.cedar", "secret": "okta.txt", "settings": "zonectl.yaml"}[
        role
    ]
    (attempt.repository.config / name).unlink()
    if role == "manifest" and what == "directory":
        pytest.skip("a directory is looked into, whatever its name")
    SPECIAL[what](attempt.repository.config / name)

    done = attempt.repository.run("apply", "config", "--yes", seconds=15)

    assert done.returncode in (1, REFUSED, USAGE), done.stdout
    assert name in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not attempt.world.entities


@pytest.mark.threat("38m")
def test_many_names_of_one_large_file(attempt: Attempt) -> None:
    """A few bytes of links do not make zonectl read gigabytes."""
    attempt.repository.write("common/large.yaml", "# nothing here\n" * 500_000)
    for number in range(10):
        attempt.repository.link(f"config/{number}.yaml", "../common/large.yaml")
    assert attempt.validates()
    for number in range(10, 1000):
        attempt.repository.link(f"config/{number}.yaml", "../common/large.yaml")

    done = attempt.repository.run("validate", "config", seconds=45)

    assert done.returncode == 1
    assert "all files together have more than" in done.stdout


@pytest.mark.threat("38j")
@pytest.mark.parametrize("variable", ["ZONECTL_API_KEY", "ZONECTL_CLIENT_SECRET", "zonectl_api_key", "COPY"])
def test_own_credentials_from_the_environment(attempt: Attempt, variable: str) -> None:
    """Neither by their names nor under another one."""
    text = PROVIDER.replace("from_file: NAME", "from_env: NAME")
    attempt.repository.settings |= {"COPY": f"Bearer {API_KEY}", "ZONECTL_CLIENT_SECRET": "s3cret-s3cret"}
    attempt.repository.write("config/p.yaml", text.replace("NAME", variable))
    allowed = ("--allow-env", "COPY", "--allow-env", "OKTA", "--allow-env", "Z*", "--allow-env", "z*")
    attempt.secret_refused(f"`{variable}`", "zonectl's own", options=allowed)

    attempt.repository.settings["OKTA"] = "a provider's"
    attempt.repository.write("config/p.yaml", text.replace("NAME", "OKTA"))
    assert attempt.repository.run("apply", "config", "--yes", *allowed).returncode == 0
    assert list(attempt.world.secrets.values()) == ["a provider's"]


@pytest.mark.threat("38n")
@pytest.mark.parametrize("pattern", ["OKTA_SECRET", "OKTA_*", "O*"])
@pytest.mark.parametrize("by", ["option", "file"])
def test_the_environment_is_read_by_names_that_somebody_outside_allows(
    attempt: Attempt, pattern: str, by: str
) -> None:
    """A manifest alone has no variable sent to a provider of its author's choice, nor learns if it is set."""
    attempt.repository.settings |= {"OKTA_SECRET": "a provider's", "AWS_SECRET": CANARY}
    own = attempt.repository.machine / "home/.local/state/zonewright/zonectl.yaml"
    own.parent.mkdir(parents=True)
    options: tuple[str, ...] = ("--allow-env", pattern)
    if by == "file":
        own.write_text(f"allow_env: [OTHER, '{pattern}']\n")
        options = ()
    # What a repository says of itself allows nothing.
    attempt.repository.write(".local/state/zonewright/zonectl.yaml", "allow_env: [AWS_SECRET]\n")
    text = PROVIDER.replace("from_file: NAME", "from_env: NAME")
    for name in ("AWS_SECRET", "NOT_SET", "XOKTA_SECRET"):
        attempt.repository.write("config/p.yaml", text.replace("NAME", name))
        attempt.secret_refused(
            f"manifests may not read the environment variable `{name}`: allow it with `--allow-env {name}`",
            f"list it under `allow_env` in `{own}`",
            options=options,
        )

    attempt.repository.write("config/p.yaml", text.replace("NAME", "OKTA_SECRET"))
    attempt.secret_refused("may not read the environment variable `OKTA_SECRET`") if by == "option" else None
    assert attempt.repository.run("plan", "config", *options).returncode == CHANGES
    assert attempt.repository.run("apply", "config", "--yes", *options).returncode == 0
    assert list(attempt.world.secrets.values()) == ["a provider's"]


@pytest.mark.threat("38n")
def test_a_state_directory_in_the_repository_allows_nothing(attempt: Attempt) -> None:
    """It is the repository's own word, wherever it is called by."""
    attempt.repository.settings |= {"OKTA_SECRET": CANARY, "ZONECTL_STATE_DIR": ".state"}
    attempt.repository.write("config/p.yaml", PROVIDER.replace("from_file: NAME", "from_env: OKTA_SECRET"))
    attempt.repository.write(".state/zonectl.yaml", "allow_env: [OKTA_SECRET]\n").chmod(0o600)
    attempt.secret_refused("allow it with `--allow-env OKTA_SECRET` (config/p.yaml:1)")

    attempt.repository.settings["ZONECTL_STATE_DIR"] = "../state"
    (attempt.repository.path / ".state").rename(attempt.repository.machine / "work" / "state")
    assert attempt.repository.run("apply", "config", "--yes").returncode == 0


ALLOWED_BADLY: dict[str, tuple[str, str]] = {
    "a value": ("allow_env: OKTA", "`allow_env` must be a list of names"),
    "everything": ("allow_env: ['*']", "`*` is neither the name of an environment variable nor a prefix"),
    "our own": ("allow_env: [ZONECTL_API_KEY]", "no manifest may read zonectl's own variables"),
    "misspelt": ("allow_envs: [A]", "unknown member `allow_envs`; did you mean `allow_env`?"),
    "no mapping": ("- OKTA", "the file must be a mapping of `allow_env`, not a list"),
    "no YAML": ("allow_env: [A", "zonectl.yaml:"),
    "bytes": ("allow_env: [\udcff]", "is not UTF-8"),
    "others can write": ("allow_env: [OKTA]", "other users can write to it"),
}


@pytest.mark.threat("38n")
@pytest.mark.parametrize("case", ALLOWED_BADLY)
def test_a_list_of_names_that_means_nothing_is_told(attempt: Attempt, case: str) -> None:
    """Nothing is guessed of what somebody may have meant to allow."""
    content, message = ALLOWED_BADLY[case]
    own = attempt.repository.machine / "home/.local/state/zonewright/zonectl.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("allow_env: [OKTA]\n# a comment\n")
    assert attempt.repository.run("plan", "config").returncode == CHANGES
    own.write_bytes(os.fsencode(content))
    own.chmod(0o662 if case == "others can write" else 0o600)

    done = attempt.repository.run("plan", "config")

    assert done.returncode == USAGE
    assert f"{own}:" in done.stderr
    assert message in done.stderr


@pytest.mark.threat("38n")
@pytest.mark.parametrize("name", ["*", "", "A B", "1A", "ZONECTL_API_KEY", "zonectl_*", "A*B", "ZONECTL_*"])
def test_an_option_that_allows_nothing_is_told(attempt: Attempt, name: str) -> None:
    """A name or a prefix, and never one of zonectl's own."""
    assert attempt.repository.run("plan", "config", "--allow-env", "A_*").returncode == CHANGES
    done = attempt.repository.run("plan", "config", "--allow-env", name)

    assert done.returncode == USAGE
    assert f"`--allow-env`: `{name}`" in done.stderr


@pytest.mark.threat("38j")
@pytest.mark.parametrize("way", [*NAMES, "inside", "hidden", "hard link", "among others"])
def test_own_key_from_a_file(attempt: Attempt, way: str) -> None:
    """What `--api-key-file` names is no secret of a manifest, wherever it lies and whoever names it."""
    attempt.repository.settings["ZONECTL_API_KEY"] = ""
    inside = {"inside": "config/key.txt", "hidden": "config/.key", "among others": "config/keys.txt"}
    if way in inside:
        name = Path(inside[way]).name
        key = attempt.repository.write(inside[way], f"{API_KEY}\n")
        if way == "among others":
            attempt.repository.write("config/keys.txt", f"KEY={API_KEY}\nother=1\n")
            key = outside(attempt.repository, "key.txt", f"{API_KEY}\n")
    else:
        key = outside(attempt.repository, "key.txt", f"{API_KEY}\n")
        name = "h.txt"
        if way == "hard link":
            (attempt.repository.config / name).hardlink_to(key)
        else:
            name = NAMES[way](attempt.repository, key)
    attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", name))
    apply = ("apply", "config", "--yes", "--api-key-file", key)
    done = [attempt.repository.run(*apply, *extra) for extra in ((), ("--secrets-from", key.parent))]
    assert not [each.stdout for each in done if each.returncode not in (1, REFUSED)]
    assert not [each.stdout for each in done if name not in each.stdout + each.stderr]
    assert not [each for each in done if API_KEY in each.stdout + each.stderr]
    assert not attempt.world.entities

    attempt.repository.write("config/okta.txt", "a provider's\n")
    attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", "okta.txt"))
    done = attempt.repository.run("apply", "config", "--yes", "--api-key-file", key)
    assert done.returncode == 0
    assert list(attempt.world.secrets.values()) == ["a provider's"]


@pytest.mark.parametrize(
    ("shown", "refusal"),
    [(True, "is outside the repository"), (False, "the plan does not show")],
    ids=["shown", "not-shown"],
)
def test_a_saved_plan_names_no_file_outside(attempt: Attempt, shown: bool, refusal: str) -> None:
    """Its secrets are read when it is applied, and by the same rules; its actions show the file, or not."""
    from reconciler.plan.model import digest_of

    attempt.repository.write("config/okta.txt", "a provider's\n")
    attempt.repository.write("config/p.yaml", PROVIDER.replace("NAME", "okta.txt"))
    assert attempt.repository.run("plan", "config", "--out", "plan.json").returncode == CHANGES
    text = (attempt.repository.path / "plan.json").read_text()
    file = outside(attempt.repository, "token.txt", CANARY)
    content = json.loads(text.replace('"config/okta.txt"', json.dumps(str(file))))
    if not shown:
        content["actions"] = json.loads(text)["actions"]
    del content["digest"]
    forged = {**content, "digest": digest_of(content)}
    (attempt.repository.path / "forged.json").write_text(json.dumps(forged))
    done = attempt.repository.run("apply", "forged.json")
    assert done.returncode in (1, REFUSED)
    assert refusal in done.stderr
    assert not attempt.world.entities

    assert attempt.repository.run("apply", "plan.json").returncode == 0
    assert list(attempt.world.secrets.values()) == ["a provider's"]


@pytest.mark.parametrize("option", ["--out", "--receipt", "--secrets-dir"])
@pytest.mark.parametrize("way", ["itself", "folder"])
def test_nothing_is_written_through_a_link(attempt: Attempt, option: str, way: str) -> None:
    """Where an option names something in the repository, no link there takes it elsewhere."""
    command = ("plan", "config") if option == "--out" else ("apply", "config", "--yes")
    target = attempt.repository.machine / "outside" / "target"
    if way == "folder" or option == "--secrets-dir":
        target.mkdir()
    attempt.repository.link("written", target)
    place = "written/x" if way == "folder" else "written"

    done = attempt.repository.run(*command, option, place)

    assert done.returncode == REFUSED
    assert f"`{option}`: `{place}`" in done.stderr
    assert not attempt.world.entities
    assert not target.exists() or not list(target.iterdir())
    (attempt.repository.path / "written").unlink()
    (attempt.repository.path / "written").mkdir()
    assert attempt.repository.run(*command, option, "written/x").returncode in (0, CHANGES)


@pytest.mark.parametrize("name", [".vscode", ".vscode/settings.json", ".vscode/zonewright.schema.json"])
def test_an_editors_settings_are_not_written_through_a_link(repository: Repository, name: str) -> None:
    """`zonectl schema` in somebody's branch changes files of that branch alone."""
    target = repository.machine / "outside" / "target"
    (target.mkdir if name == ".vscode" else target.touch)()
    repository.link(name, target)

    done = repository.run("schema")

    assert done.returncode == 1
    assert "symbolic link" in done.stderr
    assert target.is_dir() or target.read_text() == ""
    (repository.path / name).unlink()
    assert repository.run("schema").returncode == 0


@pytest.mark.parametrize("place", ["relative", "absolute"])
def test_a_cache_that_a_repository_brings_along_is_not_used(attempt: Attempt, place: str) -> None:
    """Else its documents would count as checked."""
    attempt.repository.write("config/x.yaml", HEAD + "kind: Zone\nmetadata: {name: other}\nspec: {name: A}\n")
    elsewhere = attempt.repository.machine / "cache"
    assert attempt.repository.run("validate", "config", ZONECTL_CACHE_DIR=str(elsewhere)).returncode == 0
    (made,) = (elsewhere / "manifests").iterdir()
    known = json.loads(made.read_bytes())
    (entry,) = (entry for entry in known.values() if entry[0][1]["metadata"]["name"] == "other")
    entry[0][1]["spec"]["name"] = 7
    copy = attempt.repository.path / ".cache" / "manifests" / made.name
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(known))
    copy.chmod(0o600)

    named = ".cache" if place == "relative" else str(attempt.repository.path / ".cache")
    done = attempt.repository.run("plan", "config", "--output", "json", ZONECTL_CACHE_DIR=named)
    assert json.loads(done.stdout)["operations"][0]["spec"]["name"] in ("A", "workforce")
    assert ": 7" not in done.stdout


@pytest.mark.threat("38m")
def test_the_settings_of_git_run_nothing(git: Repository, attempt: Attempt) -> None:
    """An archive of a repository brings `.git` along; asking for the commit starts none of its programs."""
    ran = git.machine / "ran"
    program = git.write("program", f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for arguments in (
        ("config", "core.fsmonitor", str(program)),
        ("config", "core.hooksPath", str(git.path)),
    ):
        subprocess.run(["git", *arguments], cwd=git.path, check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false"]
    subprocess.run(["git", *author, "add", "."], cwd=git.path, check=True)
    subprocess.run(["git", *author, "commit", "-q", "--no-verify", "-m", "a"], cwd=git.path, check=True)
    subprocess.run(["git", "status"], cwd=git.path, check=True, capture_output=True)
    assert ran.exists()  # it would have run
    ran.unlink()

    done = git.run("plan", "config", "--output", "json")

    assert done.returncode == CHANGES
    assert len(json.loads(done.stdout)["source"]["commit"]) == 40
    assert not ran.exists()
