"""`make build`: the same bytes from the same commit, all that is needed in the wheel, a bill of materials."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from email.parser import HeaderParser
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from tests.shipping.installing import ROOT, required
from tests.shipping.trees import tree
from tools.build import CHECKSUMS, build
from tools.sbom import bill_of_materials, pins

LOCKS = ROOT / "requirements"
SERVICE = frozenset({"runtime", "postgres", "redis", "kms", "otel"})


def test_the_same_commit_gives_the_same_bytes(tmp_path: Path):
    """At two places, at two times, with files of two ages: wheel, source and bill of materials."""
    first, second = (tree(tmp_path / name / "project") for name in ("one", "another"))
    for file in second.rglob("*.py"):
        os.utime(file, (1, 1))
    build(first, tmp_path / "first")
    build(second, tmp_path / "second")

    checksums = (tmp_path / "first" / CHECKSUMS).read_text()
    assert checksums == (tmp_path / "second" / CHECKSUMS).read_text()
    assert re.findall(r"(?:whl|tar\.gz|json)$", checksums, re.MULTILINE) == ["whl", "tar.gz", "json"]


def test_checksums_are_those_of_the_files(artifacts: Path):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", CHECKSUMS], cwd=artifacts, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_folder_of_an_older_build_is_emptied(tmp_path: Path):
    """Nothing of another version is released along with this one."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "zonewright-0.0.1-py3-none-any.whl").write_text("older")
    assert len(build(ROOT, tmp_path / "dist")) == len(list((tmp_path / "dist").iterdir())) == 4


def contents(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_file_of_the_packages(wheel: Path):
    """Templates, rules, migrations and the markers of types among them."""
    wanted = {
        str(file.relative_to(ROOT / "src"))
        for package in ("runtime", "reconciler", "zonewright")
        for file in (ROOT / "src" / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    kinds = {name.rpartition(".")[2] for name in wanted}
    assert {"py", "typed", "html", "css", "cedar", "sql"} & kinds >= {"py", "typed", "html", "cedar"}
    assert wanted - contents(wheel) == set()


def test_the_wheel_has_the_contract(wheel: Path):
    """`schemas/`, where the reconciler looks for it."""
    wanted = {
        f"reconciler/schemas/{file.relative_to(ROOT / 'schemas')}"
        for file in (ROOT / "schemas").rglob("*")
        if file.is_file()
    }
    assert wanted
    assert wanted - contents(wheel) == set()


def test_the_wheel_has_nothing_else(wheel: Path):
    """No tests, no examples, nothing that was left behind by tools."""
    first = {name.split("/")[0] for name in contents(wheel)}
    assert first == {"runtime", "reconciler", "zonewright", f"zonewright-{version('zonewright')}.dist-info"}
    assert not [name for name in contents(wheel) if re.search(r"(^|/)(tests?/|__pycache__|\.)", name)]


def test_the_metadata_is_complete(wheel: Path):
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("METADATA"))
        told = HeaderParser().parsestr(archive.read(name).decode())
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert told["Requires-Python"] == ">=3.11"
    assert "# zonewright" in told.get_payload()
    assert {"runtime", "postgres", "redis", "kms", "otel", "verify"} <= set(
        told.get_all("Provides-Extra", [])
    )


@pytest.mark.parametrize("typed", ["runtime", "reconciler", "zonewright"])
def test_users_of_each_package_have_its_types(wheel: Path, typed: str):
    assert f"{typed}/py.typed" in contents(wheel)


def test_the_lock_of_an_installation_is_what_the_extras_need():
    """Every package that the service needs here, with all extras, at the version that is tested here."""
    locked = {pin.name: pin.version for pin in pins((LOCKS / "service.txt").read_text())}
    needed = required("zonewright", SERVICE)
    assert {name: locked.get(name) for name in needed} == needed


@pytest.mark.parametrize("smaller", ["runtime.txt", "service.txt", "build.txt"])
def test_locks_agree(smaller: str):
    """What is installed somewhere was tested at that version."""
    tested = {pin.name: pin.version for pin in pins((LOCKS / "dev.txt").read_text())}
    found = {pin.name: pin.version for pin in pins((LOCKS / smaller).read_text())}
    assert {name: tested[name] for name in found} == found


class TestBillOfMaterials:
    @pytest.fixture
    def bill(self, artifacts: Path) -> str:
        (found,) = artifacts.glob("*.cdx.json")
        return found.read_text()

    def test_is_valid(self, bill: str):
        """By the schema of CycloneDX, which refuses unknown members."""
        # Its import takes seconds, which no process needs that only collects this.
        from cyclonedx.validation.json import JsonStrictValidator

        validator = JsonStrictValidator(SchemaVersion.V1_6)
        assert validator.validate_str(bill) is None
        assert validator.validate_str(bill.replace('"components"', '"parts"', 1)) is not None

    def test_names_everything_that_is_installed_along(self, bill: str):
        listed = {each["purl"] for each in json.loads(bill)["components"]}
        locked = (LOCKS / "service.txt").read_text()
        assert listed == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins(locked)}

    def test_is_about_this_wheel(self, bill: str, artifacts: Path, wheel: Path):
        subject = json.loads(bill)["metadata"]["component"]
        (line,) = (
            each for each in (artifacts / CHECKSUMS).read_text().splitlines() if each.endswith(wheel.name)
        )
        assert subject["hashes"] == [{"alg": "SHA-256", "content": line.split()[0]}]
        assert subject["licenses"] == [{"license": {"id": "Apache-2.0"}}]

    def test_says_what_the_package_itself_requires(self, bill: str):
        """And of nothing that only tests need."""
        told = {each["ref"]: each.get("dependsOn", []) for each in json.loads(bill)["dependencies"]}
        direct = {each.split("@")[0] for each in told[f"zonewright@{version('zonewright')}"]}
        assert {"sanic", "cedarpy", "asyncpg", "redis", "click"} <= direct
        assert not {"pytest", "h11"} & direct


def test_an_unpinned_line_of_a_lock_is_refused(wheel: Path, tmp_path: Path):
    """A bill that leaves something out would be worse than none."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    pinned = f"click==8.1.0 --hash=sha256:{'0' * 64}\n"
    assert "pkg:pypi/click@8.1.0" in bill_of_materials(wheel, pinned, at=at)
    with pytest.raises(ValueError, match=r"`httpx>=0\.28`"):
        bill_of_materials(wheel, pinned + "httpx>=0.28\n", at=at)


def test_a_build_that_fails_says_why(tmp_path: Path):
    """In the builder's words, and with exit code 1."""
    broken = tree(tmp_path / "project")
    description = broken / "pyproject.toml"
    description.write_text(description.read_text().replace('name = "zonewright"', 'name = ""'))
    done = subprocess.run(
        [sys.executable, "-m", "tools.build", str(tmp_path / "dist")],
        cwd=broken,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "name" in done.stderr
