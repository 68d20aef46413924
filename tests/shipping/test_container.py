"""The container image, built of its file; run as process 1, with a read-only root and without rights."""

import json
import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from acme import CONFIG
from tests.shipping.containers import CONTAINERFILE, ROOT, Container, Image, Store, require_tools
from tests.support.waiting import wait_until

OWNER = 10001


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """With its labels, from a base image that has Python and nothing else."""
    require_tools()
    store = Store(tmp_path_factory.mktemp("images"))
    try:
        yield store.build(
            "localhost/zonewright", PYTHON_IMAGE=store.base(), VERSION="1.2.3", REVISION="0123abc"
        )
    finally:
        store.clear()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Empty, and as the image has it."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (made := tmp_path / "volume").mkdir(mode=0o700)
    os.chown(made, OWNER, OWNER)
    return made


@pytest.fixture
def container(image: Image, volume: Path) -> Iterator[Container]:
    """One that serves, on a database of its own."""
    assert image.run(volume, "init").returncode == 0
    with image.running(volume) as running:
        wait_until(
            lambda: running.process.poll() is not None or healthy(running),
            seconds=90,
            otherwise=lambda: "no health check succeeds",
        )
        assert running.process.poll() is None, running.logs()
        yield running


def healthy(container: Container) -> bool:
    """Whether the image's own check succeeds."""
    kind, *command = container.image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    return container.execute(*command).returncode == 0


@pytest.mark.long
def test_it_serves_and_stops_with_the_signal(container: Container):
    """As process 1, which the kernel sends no signal that it does not handle; every worker goes with it."""
    listed = container.execute(
        "python", "-c", "import os; print(*sorted(n for n in os.listdir('/proc') if n.isdigit()))"
    )
    assert "1" in listed.stdout.split()
    assert container.execute("cat", "/proc/1/comm").stdout == "zoned\n"
    assert container.stop() == 0


@pytest.mark.long
def test_the_root_file_system_is_read_only_and_that_is_enough(container: Container, volume: Path):
    """What it keeps is in the volume; it could write nowhere else."""
    assert container.execute("touch", "/var/lib/zoned/written").returncode == 0
    assert (volume / "written").exists()
    assert "Read-only" in container.execute("touch", "/opt/zonewright/written").stderr


@pytest.mark.long
def test_it_runs_without_rights(container: Container):
    """As a user without a name, which nothing of the image belongs to but the volume."""
    status = container.execute("cat", "/proc/1/status").stdout
    rights = dict(re.findall(r"^(Uid|Gid|CapBnd|NoNewPrivs):\s+(\S+)", status, re.MULTILINE))
    assert rights == {"Uid": str(OWNER), "Gid": str(OWNER), "CapBnd": "0000000000000000", "NoNewPrivs": "1"}


@pytest.mark.long
def test_the_check_fails_where_nothing_answers(image: Image, volume: Path):
    """What is healthy in the other tests is not so by itself."""
    assert image.run(volume, "init").returncode == 0
    with image.running(volume, ZONED_LISTEN="127.0.0.1:8081") as elsewhere:
        ready = (
            "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8081); c.request('GET', '/readyz')"
        )
        wait_until(
            lambda: elsewhere.execute("python", "-c", ready).returncode == 0,
            seconds=90,
            otherwise=lambda: "it does not serve",
        )
        assert not healthy(elsewhere)


@pytest.mark.long
def test_doctor_and_zonectl_are_there(container: Container, volume: Path):
    """`zoned doctor` finds nothing to mend, and `zonectl` reads manifests that are mounted."""
    findings = json.loads(container.execute("zoned", "doctor", "--json").stdout)["findings"]
    assert {each["check"] for each in findings if each["verdict"] == "problem"} == set()
    for file in CONFIG.rglob("*"):
        if file.is_file():
            copy = volume / "config" / file.relative_to(CONFIG)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    done = container.execute("zonectl", "validate", "/var/lib/zoned/config")
    assert done.returncode == 0, done.stdout + done.stderr
    assert version("zonewright") in container.execute("zonectl", "--version").stdout


@pytest.mark.long
def test_nothing_of_the_image_can_be_changed_by_its_user(image: Image):
    """Not its programs, and there is no pip to install others with."""
    tree = image.root / "opt/zonewright"
    files = [file.lstat() for file in tree.rglob("*")]
    assert len(files) > 1000
    assert not [
        file for file in files if file.st_uid != 0 or (file.st_mode & 0o022 and not file.st_mode & 0o120000)
    ]
    assert not list(tree.glob("lib/python*/site-packages/pip"))
    assert not (tree / "bin/pip").exists()


@pytest.mark.long
def test_only_what_is_installed_is_in_it(image: Image):
    """Neither the source that it was built of nor what built it."""
    assert not (image.root / "source").exists()
    assert not (image.root / "wheel").exists()
    assert not (image.root / "opt/build").exists()


@pytest.mark.long
def test_its_description_has_no_secret_and_says_what_it_is(image: Image):
    labels = {name.rpartition(".")[2]: value for name, value in image.config["Labels"].items()}
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"] == "1.2.3"
    assert labels["revision"] == "0123abc"
    names = {each.partition("=")[0] for each in image.config["Env"]}
    assert {name for name in names if name.startswith("ZONED_")} == {
        "ZONED_DATA_DIR",
        "ZONED_LISTEN",
        "ZONED_LOG_FORMAT",
    }


def test_the_build_is_sent_what_it_copies_and_no_more():
    """Everything else stays outside by default: .git, environments, data directories."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE.read_text(), re.MULTILINE)
    sources = {source.split("/")[0] for line in copied for source in line.split()}
    assert patterns[0] == "*"
    assert {line[1:] for line in patterns if line.startswith("!")} == sources


def test_the_command_of_the_guide_is_of_this_file():
    """It builds this file, with arguments that it has; the table has each, and its default."""
    page = (ROOT / "docs/operating/installing.md").read_text("utf-8").replace("\\\n", " ")
    [command] = re.findall(r"^podman build .+$", page, re.MULTILINE)
    arguments = dict(re.findall(r"^ARG (\w+)=(\S*)$", CONTAINERFILE.read_text(), re.MULTILINE))
    told = dict(re.findall(r"^\| `([A-Z_]+)`(?:, `[A-Z_]+`)* \| (?:`([^`]+)`)?", page, re.MULTILINE))
    named = set(re.findall(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|", page, re.MULTILINE))

    assert CONTAINERFILE.relative_to(ROOT).as_posix() in command.split()
    assert set(re.findall(r"--build-arg (\w+)=", command)) <= arguments.keys()
    assert {each for names in named for each in re.findall(r"`(\w+)`", names)} == arguments.keys()
    assert {name: told[name] for name in ("PYTHON_IMAGE", "LOCK")} == {
        name: arguments[name] for name in ("PYTHON_IMAGE", "LOCK")
    }


def test_programs_are_started_without_a_shell():
    """A shell would be process 1 in their place, and pass no signal on."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    started = re.findall(r"^ *(?:ENTRYPOINT|CMD|HEALTHCHECK.* CMD) (.+)$", text, re.MULTILINE)
    assert len(started) == 3
    assert [isinstance(json.loads(each), list) for each in started] == [True] * 3


def test_everything_is_installed_by_its_hash():
    """No address of an index, and nothing that is not in a lock."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]+)", text)
    assert len(installs) == 3
    assert [
        each for each in installs if "--require-hashes" not in each and "--no-deps --no-index" not in each
    ] == []
    assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|https?://", text)
