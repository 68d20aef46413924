"""The wheel in an environment that has what the lock pins and nothing else: everything works there."""

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from acme import CONFIG, clean_environment, free_port
from tests.shipping.installing import ROOT, environment, is_installed, required
from tools.sbom import pins

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every extra of the service."""
    locked = [pin.name for pin in pins((ROOT / "requirements/service.txt").read_text())]
    folder = tmp_path_factory.mktemp("service") / "env"
    return environment(folder, wheel, filter(is_installed, locked))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without any extra: for a CI job that runs `zonectl`."""
    return environment(tmp_path_factory.mktemp("base") / "env", wheel, required("zonewright", frozenset()))


def run(
    program: Path, *arguments: str, cwd: Path = ROOT, **settings: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [program, *arguments],
        env=clean_environment(PYTHONPATH="", NO_COLOR="1", **settings),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
    )


def test_the_service_comes_from_the_wheel(programs: Path, tmp_path: Path):
    """And not from this tree, which is on no path there."""
    packages = ("runtime", "reconciler", "zonewright")
    asked = "; ".join(f"import {each}; print({each}.__file__)" for each in packages)
    done = run(programs / "python", "-c", asked, cwd=tmp_path)
    assert [Path(each).is_relative_to(programs.parent) for each in done.stdout.split()] == [True] * 3


def test_the_whole_product_works(programs: Path, tmp_path: Path):
    """`zoned init` and `serve`, `zonectl validate`, `plan` and `apply`, sign-in, exchanges, `zonewright`."""
    done = run(programs / "python", str(ROOT / "examples/demo.py"), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it happened" in done.stdout


def test_doctor_finds_no_problem(programs: Path, tmp_path: Path):
    """With a database that was made there, migrations included."""
    settings = {"ZONED_DATA_DIR": str(tmp_path / "data"), "ZONED_LISTEN": f"127.0.0.1:{free_port()}"}
    made = run(programs / "zoned", "init", **settings)
    assert made.returncode == 0, made.stderr
    told = json.loads(run(programs / "zoned", "doctor", "--json", **settings).stdout)["findings"]
    assert {each["check"] for each in told if each["verdict"] == "problem"} == set()
    assert "schema" in {each["check"] for each in told if each["verdict"] == "ok"}


@pytest.mark.parametrize("program", ["zoned", "zonectl"])
def test_each_program_says_its_version(programs: Path, program: str):
    assert version("zonewright") in run(programs / program, "--version").stdout


def test_manifests_are_validated_without_any_extra(base: Path):
    """The base install is the reconciler, with the contract in it."""
    done = run(base / "zonectl", "validate", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (base.parent / "bin" / "pip").exists()


def test_the_service_says_which_extra_it_needs(base: Path):
    """In one line, instead of a traceback."""
    done = run(base / "zoned", "--help")
    assert done.returncode == 1
    assert re.fullmatch(
        r"zoned: `\w+` is not installed; the service needs the extra `zonewright\[runtime\]`.*\n", done.stderr
    )


@pytest.mark.parametrize(
    ("setting", "value", "extra"),
    [
        ("ZONED_DATABASE_URL", "postgresql+asyncpg://zoned@127.0.0.1:1/zoned", "postgres"),
        ("ZONED_REDIS_URL", "redis://127.0.0.1:1", "redis"),
    ],
)
def test_drivers_are_needed_only_where_they_are_used(
    wheel: Path, tmp_path: Path, setting: str, value: str, extra: str
):
    """SQLite and memory work without them; another setting says which extra it needs."""
    small = environment(tmp_path / "env", wheel, required("zonewright", frozenset({"runtime"})))
    settings = {"ZONED_DATA_DIR": str(tmp_path / "data")}
    made = run(small / "zoned", "init", **settings)
    assert made.returncode == 0, made.stderr
    refused = run(small / "zoned", "organization", "list", **settings, **{setting: value})
    assert refused.returncode == 1
    assert f"`zonewright[{extra}]`" in refused.stderr
