"""Secrets are pushed through every command and every form of output, and found where they belong alone."""

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reconciler.fake_server import API_KEY, FakeServer, World
from tests.reconciler.hostile.conftest import (
    WITHOUT_CONFIGURATION,
    Repository,
    every_command,
    heed_interrupts,
)
from tests.support.canaries import Canaries

from reconciler.cli import cli
from reconciler.kinds import load_kinds
from reconciler.manifests import find_source_files, load_configuration
from reconciler.report.diagnostics import diagnostic_lines, validation_json
from reconciler.terminal import rendered

pytestmark = pytest.mark.long

HEAD = "apiVersion: zonewright/v1\n"
PROVIDER = (
    "kind: Provider\nmetadata: {zone: workforce, name: NAME}\n"
    "spec: {name: NAME, identifier: 'https://NAME.example', client_secret: {SOURCE, version: '1'}}\n"
)
CREDENTIAL = (
    "kind: Application\nmetadata: {zone: workforce, name: agent}\nspec: {name: Agent}\n---\n"
    + HEAD
    + "kind: ApplicationCredential\nmetadata: {zone: workforce, name: key}\n"
    "spec: {application: agent, type: password}\n"
)
WRITTEN = "canary-in-a-manifest"


def provider(name: str, source: str) -> str:
    """A provider whose secret comes from there."""
    return HEAD + PROVIDER.replace("NAME", name).replace("SOURCE", source)


def literal(text: str) -> str:
    """A provider's manifest with a secret in it, as somebody has written it."""
    return HEAD + "kind: Provider\nmetadata: {zone: workforce, name: bad}\nspec:\n  name: Bad\n" + text


# What the configuration has besides what is right.
REPOSITORIES: dict[str, str] = {
    "right": "",
    "not allowed": provider("bad", "from_env: AWS_SECRET"),
    "our own": provider("bad", "from_env: ZONECTL_CLIENT_SECRET"),
    "a file outside": provider("bad", "from_file: ../../../outside/token.txt"),
    "a hidden file": provider("bad", "from_file: ../.env"),
    "not there": provider("bad", "from_file: nowhere.txt"),
    "literal": literal(f"  client_secret: {WRITTEN}\n"),
    "literal in a mapping": literal(f"  client_secret: {{value: {WRITTEN}}}\n"),
    "misspelt": literal(f"  client_secrt: {WRITTEN}\n"),
    "in a comment": literal(f"  nme: x # client_secret is: no, client_secret: {WRITTEN}\n"),
    "open quote": literal(f'  client_secret: "{WRITTEN}\n'),
    "block": literal(f"  client_secret: |\n  {WRITTEN}\n"),
    "tab": literal(f"  client_secret: |\n\t{WRITTEN}\n"),
    "alias": literal(f"  client_secret: *{WRITTEN}\n"),
    "two colons": literal(f"  client_secret: {WRITTEN}: x\n"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "validate": ("config",),
    "fmt": ("config", "--check", "--diff"),
    "plan": ("config", "--out", "../plan.json"),
    "drift": ("config",),
    "apply": ("config", "--yes", "--receipt", "../receipt.json", "--secrets-dir", "../shown"),
    "watch": ("config",),
    "schema": ("--dir", "config"),
}
SOURCES = ("--allow-env", "OKTA_*", "--secrets-from", "../../outside/mounted")


class Showing(World):
    """An organization that shows a secret once, when it makes it."""

    canary = "canary-shown-once"

    def changeset(self, body: Any, *, dry_run: bool = False) -> dict[str, Any]:
        """Apply a changeset."""
        result = super().changeset(body, dry_run=dry_run)
        for each, operation in zip(result["operations"], body["operations"], strict=True):
            if operation["kind"] == "ApplicationCredential" and operation["op"] == "create":
                each["shown_once"] = {"password": self.canary}
        return result


@pytest.fixture
def world(kinds: Any) -> World:
    """That organization."""
    return Showing(kinds)


@pytest.fixture
def canaries(trusting: Repository) -> Canaries:
    """Secrets in every place where zonectl, or somebody who works with it, has some."""
    kept = Canaries()
    own = ("ZONECTL_CLIENT_SECRET", "AWS_SECRET", "OKTA_SECRET")
    trusting.settings |= {name: kept.keep(name, f"canary-variable-{name.lower()}") for name in own}
    kept.keep("the API key", API_KEY)
    kept.keep("what the server shows once", Showing.canary)
    kept.keep("what stands in a manifest", WRITTEN)
    files = {
        "a file of the repository": trusting.path / "secrets" / "inside.txt",
        "a file beside": trusting.machine / "outside" / "mounted" / "okta",
        "a file outside": trusting.machine / "outside" / "token.txt",
        "a hidden file": trusting.path / ".env",
    }
    for what, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(kept.keep(what, f"canary-{what.replace(' ', '-')}"))
    return kept


def outputs(command: str) -> Iterator[tuple[str, ...]]:
    """Every form of output that a command has."""
    for option in cli.commands[command].params:
        if option.name == "output":
            assert isinstance(option.type, click.Choice)
            yield from (("--output", str(each)) for each in option.type.choices)
            return
    yield ()


def run(repository: Repository, command: str, *arguments: str) -> bytes:
    """All that a command prints; `watch` is ended after its first result."""
    if command != "watch":
        return repository.run(command, *arguments, together=True).stdout.encode()
    process = subprocess.Popen(
        repository.command(command, *arguments),
        cwd=repository.path,
        env=repository.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        return first + process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()


@pytest.mark.threat("38l")
@pytest.mark.threat("38p")
@pytest.mark.parametrize("case", REPOSITORIES)
def test_no_secret_is_in_any_output(
    trusting: Repository, server: FakeServer, world: World, canaries: Canaries, case: str
) -> None:
    """Neither printed, nor saved, nor kept; what is meant to have it has it."""
    documents = [
        provider("okta", "from_env: OKTA_SECRET"),
        provider("inside", "from_file: ../secrets/inside.txt"),
        provider("beside", f"from_file: {trusting.machine}/outside/mounted/okta"),
        HEAD + CREDENTIAL,
    ]
    trusting.write("config/all.yaml", "---\n".join(documents))
    if REPOSITORIES[case]:
        trusting.write("config/bad.yaml", REPOSITORIES[case])

    places: dict[str, bytes] = {}
    for command, arguments in COMMANDS.items():
        sources = SOURCES if command in ("plan", "apply", "watch") else ()
        for output in outputs(command):
            said = run(trusting, command, *arguments, *sources, *output)
            assert said.strip()
            places[" ".join((command, *output))] = said
    if case == "right":
        assert {
            "canary-variable-okta_secret",
            "canary-a-file-of-the-repository",
            "canary-a-file-beside",
        } == set(world.secrets.values())
        shown = trusting.machine / "work" / "shown" / "workforce.ApplicationCredential.key.json"
        assert Showing.canary in shown.read_text()
        shown.unlink()
        assert (trusting.machine / "work" / "receipt.json").exists()
    else:
        assert not world.secrets
    sources_of_canaries = {trusting.path, trusting.machine / "outside"}
    for file in trusting.machine.rglob("*"):  # what is saved and kept: plans, receipts, caches, records
        if file.is_file() and not any(file.is_relative_to(each) for each in sources_of_canaries):
            places[str(file.relative_to(trusting.machine))] = file.read_bytes()
    places |= {str(file): file.read_bytes() for file in (trusting.config / ".vscode").iterdir()}

    assert canaries.found_in(places) == []


def test_every_command_is_tried() -> None:
    """A new one is in the table, too."""
    assert set(every_command()) == {*COMMANDS, *WITHOUT_CONFIGURATION}


STYLES = (
    "  client_secret: {}\n",
    '  client_secret: "{}"\n',
    "  client_secret: '{}'\n",
    "  client_secret: |\n    {}\n",
    "  client_secret: >-\n    {}\n    more\n",
    "  client_secret:\n    {}\n",
    "  client_secret: [{}]\n",
    "  client_secret: {{value: {}}}\n",
    "  client_secret: {{from_env: {{a: {}}}}}\n",
    "  protocols: {{oauth2: {{issuer: x}}}}\n  client_secret: &a {}\n  client_id: *a\n",
)
INSERTED = (
    "\t",
    '"',
    "'",
    "{",
    "[",
    "}",
    "]",
    ":",
    ": ",
    "- ",
    "#",
    "&",
    "*",
    "!",
    "|",
    "%",
    "@",
    "`",
    "\n",
    " ",
    ",",
)


@pytest.mark.threat("38p")
@given(
    style=st.sampled_from(STYLES), where=st.integers(0, 1000), what=st.sampled_from(INSERTED), data=st.data()
)
def test_a_secret_in_a_broken_manifest_is_not_shown(
    tmp_path_factory: pytest.TempPathFactory, style: str, where: int, what: str, data: st.DataObject
) -> None:
    """Whatever breaks the file before or after it: one character more, or one less."""
    before = HEAD + "kind: Provider\nmetadata: {zone: workforce, name: okta}\nspec:\n  name: Okta\n"
    after = "  identifier: https://okta.example\n  descripton: x\n"
    text = before + style.format(WRITTEN) + after
    kept = range(text.index("client_secret"), text.index(WRITTEN) + len(WRITTEN))
    places = [each for each in range(len(text) + 1) if each not in kept[1:]]
    at = places[where % len(places)]
    if data.draw(st.booleans()) or at == kept[0] or at == len(text):
        text = text[:at] + what + text[at:]
    else:
        text = text[:at] + text[at + 1 :]
    folder = tmp_path_factory.mktemp("c")
    (folder / "bad.yaml").write_text(text)
    (folder / "zone.yaml").write_text(HEAD + "kind: Zone\nmetadata: {name: workforce}\nspec: {name: w}\n")

    found = load_configuration(find_source_files([folder]), load_kinds(), use_cache=False)

    assert found.diagnostics
    told = "\n".join(rendered(each) for each in diagnostic_lines(found)) + str(validation_json(found))
    assert WRITTEN not in told, text
