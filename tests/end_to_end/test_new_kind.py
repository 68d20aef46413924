"""The worked example of CONTRIBUTING.md: one class, one `Kind` value, one migration, and the rest follows."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from acme import Server, clean_environment

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
KINDS = "src/runtime/domain/kinds/__init__.py"
VERSIONS = "src/runtime/storage/sql/migrations/versions"

ABOUT_TABLES = (
    "test_migrations_make_the_described_tables",
    "test_migrations_and_descriptions_agree_in_every_detail",
    "test_every_table_is_written_out",
)

MANIFESTS = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: shop, name: checkout}
spec: {name: Checkout}
---
apiVersion: zonewright/v1
kind: Contact
metadata: {zone: shop, name: on-call}
spec: {name: On call, email: on-call@acme.example, application: checkout}
"""


def blocks(language: str) -> list[str]:
    """The code blocks of CONTRIBUTING.md in a language, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def insert(text: str, difference: str) -> str:
    """The text with each `+` line put after the line that stands before it in the difference."""
    lines, at = text.splitlines(), 0
    for step in difference.splitlines():
        if step.startswith("+"):
            lines.insert(at, step[1:])
            at += 1
        else:
            at = lines.index(step[1:]) + 1
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the example carried out."""
    copy = tmp_path_factory.mktemp("copy") / "project"
    for name in ("src", "schemas", "tests", "docs", "examples"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy(ROOT / "pyproject.toml", copy)
    kind, migration = blocks("python")
    newest = sorted(file.stem[:4] for file in (copy / VERSIONS).glob("0*.py"))[-1]
    number = f"{int(newest) + 1:04}"
    (copy / "src/runtime/domain/kinds/contact.py").write_text(kind)
    (copy / KINDS).write_text(insert((copy / KINDS).read_text("utf-8"), blocks("diff")[0]))
    migration = migration.replace("NEWEST", newest).replace("MIGRATION", number)
    (copy / VERSIONS / f"{number}_contacts.py").write_text(migration)
    run(copy, "-m", "runtime.schemas")
    return copy


def run(tree: Path, *arguments: str) -> str:
    """What a Python program says in the copy; it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=clean_environment(PYTHONPATH=str(tree / "src")),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tree,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_routes_table_schema_and_permissions_follow(tree: Path):
    """`make schemas` shows the kind everywhere, and nothing else changed its place."""
    added = {
        name: set((tree / "schemas" / name).read_text().splitlines())
        - set((ROOT / "schemas" / name).read_text().splitlines())
        for name in ("routes.txt", "tables.sql", "permissions.txt")
    }
    assert {line.split()[0] for line in added["routes.txt"]} == {"GET", "POST", "PATCH", "DELETE"}
    assert len([line for line in added["routes.txt"] if "/contacts" in line]) == len(added["routes.txt"]) == 5
    assert any("CREATE TABLE contacts" in line for line in added["tables.sql"])
    assert [line.split()[0] for line in added["permissions.txt"]] == ["contacts"]
    assert "application" in (tree / "schemas/manifests/Contact.json").read_text()


def test_the_projects_own_checks_accept_it(tree: Path):
    """The migration makes the table that the class describes, and the contract tests of kinds hold."""
    tables = [f"tests/runtime/storage/test_migrations.py::{name}" for name in ABOUT_TABLES]
    about_policies = "--ignore=tests/contract/test_cedar_reading.py"
    said = run(tree, "-m", "pytest", "tests/contract", about_policies, *tables)
    assert "passed" in said


def test_it_is_served_and_applied(tree: Path, make_server: Callable[..., Server]):
    """Create, read, list, change and delete over HTTP, and the same from a manifest."""
    server = make_server(PYTHONPATH=str(tree / "src"))
    server.start()
    config = tree / "config"
    config.mkdir()
    (config / "zonectl.yaml").write_text("owner: acme/shop\n")
    (config / "shop.yaml").write_text(MANIFESTS)

    server.zonectl("apply", str(config), "--yes", PYTHONPATH=str(tree / "src"))
    server.zonectl("plan", str(config), expect=(0,), PYTHONPATH=str(tree / "src"))

    with server.management() as client:
        contacts = f"/zones/{server.zone('shop')['id']}/contacts"
        applied = client.get(contacts).json()["items"]
        assert [each["identifier"] for each in applied] == ["on-call"]
        assert applied[0]["application_id"]
        made = client.post(
            contacts, json={"identifier": "boss", "name": "Boss", "email": "boss@acme.example"}
        )
        assert made.is_success, made.text
        one = f"{contacts}/{made.json()['id']}"
        assert client.patch(one, json={"name": "The boss"}).json()["name"] == "The boss"
        assert client.get(one).json()["email"] == "boss@acme.example"
        assert client.post(contacts, json={"identifier": "x", "name": "X"}).status_code == 400
        assert client.delete(one).is_success
        assert client.get(one).status_code == 404
