"""Text of a repository or of a server reaches terminals and CI logs as text, whatever the command."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from tests.reconciler.fake_server import API_KEY, ORGANIZATION, FakeServer, World
from tests.reconciler.hostile.conftest import WITHOUT_CONFIGURATION, Repository, every_command
from tests.support.terminals import on_a_terminal

from reconciler import terminal
from reconciler.cli import run
from reconciler.kinds import Kinds
from reconciler.terminal import Styled, rendered

# What a terminal, GitHub, Azure Pipelines or TeamCity would act upon, and a line that somebody might believe.
HOSTILE = (
    "::error file=a,line=1::FORGED\n::add-mask::FORGED\r\nFORGED: nothing to do\n##[add-matcher]FORGED "
    "##vso[a]b ##teamcity[a]\x1b[2J\x1b]0;FORGED\x07\x9b31m\x85\u2028\u202eFORGED\x7f\u200b"
)
Reply = tuple[int, Any, dict[str, str]]  # status, content, headers
HEAD = "apiVersion: zonewright/v1\n"
OUR_STYLES = re.compile(r"\x1b\[(?:0|1|2|3[1-6])m")


def harmless(text: str) -> str:
    """The text, when nothing acts upon any of it and no line of it is somebody else's."""
    acting = {each for each in text if not each.isprintable() and each not in "\n\t"}
    assert not acting, f"{acting} in {text!r}"
    lines = text.split("\n")
    assert not [line for line in lines if line.lstrip().startswith("::")]
    assert not [line for line in lines if re.search(r"##(\[|vso\[|teamcity\[)", line)]
    assert not [line for line in lines if line.startswith("FORGED")]
    return text


class Answering(FakeServer):
    """The server, when it is somebody's who wants the reader to believe or to click something."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.path = ""
        self.reply: Reply | None = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer requests of the chosen path as the test says, all others as usual."""
        if self.reply is None or not request.path.split("?")[0].endswith(self.path):
            super().answer(request)
            return
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        status, content, headers = self.reply
        if isinstance(content, list):
            content = b"".join(orjson.dumps(line) + b"\n" for line in content)
        self.send(request, status, content, headers)


@pytest.fixture
def answering(world: World) -> Iterator[Answering]:
    """Such a server."""
    with Answering.running(world) as server:
        assert isinstance(server, Answering)
        yield server


def error(status: int) -> Reply:
    """An error answer in which every member is hostile."""
    details = [
        {"code": HOSTILE, "field": field, "message": HOSTILE}
        for field in (f"operations[0].spec.{HOSTILE}", "operations[99]", HOSTILE)
    ]
    return status, {"code": HOSTILE, "message": HOSTILE, "status": status, "details": details}, {}


def snapshot() -> Reply:
    """A snapshot in which every name is hostile, of the same owner."""
    record = {"owner": "acme/identity", "name": HOSTILE, "fields": ["name", HOSTILE], "protect": True}
    zone = {
        "kind": "Zone",
        "id": "z",
        "zone_id": None,
        "zone": None,
        "handle": HOSTILE,
        "owner_type": "customer",
        "spec": {"name": HOSTILE, "description": HOSTILE},
        "ownership": record,
        "revision": 1,
    }
    role = {
        **zone,
        "kind": "Role",
        "id": "r",
        "zone_id": "z",
        "zone": HOSTILE,
        "spec": {"description": HOSTILE},
    }
    unknown = {**role, "kind": HOSTILE, "id": HOSTILE}
    ours = {**zone, "id": "w", "handle": "workforce", "spec": {"name": HOSTILE, "slug": "workforce"}}
    ours["ownership"] = {
        **record,
        "name": "workforce",
        "fields": ["name"],
        "applied": {"name": HOSTILE[::-1]},
    }
    actor = {"type": HOSTILE, "id": HOSTILE}
    gone = {"type": "tombstone", "kind": "Group", "id": HOSTILE, "zone_id": "w", "owner": record["owner"]}
    gone |= {"name": "staff", "deleted_at": HOSTILE, "actor": actor, "changeset_id": HOSTILE}
    entities = [zone, ours, role, unknown, gone]
    head = {"type": "snapshot", "organization_id": HOSTILE, "revision": HOSTILE, "label": HOSTILE}
    return 200, [head, *entities, {"type": "end", "count": len(entities)}], {"ETag": '"1"'}


def outcome() -> Reply:
    """What an apply did, as a hostile server tells it."""
    result = {"index": 0, "status": HOSTILE, "op": HOSTILE, "kind": HOSTILE, "id": HOSTILE, "name": HOSTILE}
    return (
        200,
        [{"type": "result", "id": HOSTILE, "revision": HOSTILE, "audit": HOSTILE, "operations": [result]}],
        {},
    )


def foreseen() -> Reply:
    """What a plan changes for recorded decisions, as a hostile server tells it."""
    rules = [{"policy": HOSTILE, "rule": HOSTILE}]
    request = {**dict.fromkeys(("user", "user_email", "application", "resource"), HOSTILE), "decisions": 1}
    request |= {"actors": [HOSTILE], "scopes": [HOSTILE], "before": rules, "after": rules}
    changed = {"decisions": 2, "users": 1, "applications": 1, "resources": 1}
    changed["examples"] = [{**request, "last_at": "2026-11-20T08:00:00Z"}]
    zone = {"zone_id": HOSTILE, "since": "2026-10-29T12:00:00Z", "recorded": 3, "replayed": 2}
    zone |= {"reproduced": 1, "not_replayed": {HOSTILE: 1}, "unrecorded": [HOSTILE]}
    status, (result,), headers = outcome()
    zones = [{**zone, "loses": changed, "gains": changed}, zone]
    return status, [{**result, "decision_impact": zones}], headers


EVERY = ("plan", "drift", "apply", "watch")
# A path of the server, what it answers there, and the commands whose text shows something of it.
ANSWERS: dict[str, tuple[str, Callable[[], Reply], tuple[str, ...]]] = {
    "invalid": ("changesets", lambda: error(400), ("plan", "apply", "watch")),
    "stale": ("changesets", lambda: error(412), ("plan", "apply", "watch")),
    "unauthorized": ("organizations", lambda: error(401), EVERY),
    "forbidden": ("snapshot", lambda: error(403), EVERY),
    "missing": ("snapshot", lambda: error(404), EVERY),
    "redirect": (
        "organizations",
        lambda: (302, None, {"Location": "/::error::FORGED##[a]FORGED\x9b"}),
        EVERY,
    ),
    "names": ("snapshot", snapshot, EVERY),
    "organization": ("organizations", lambda: (200, {"items": [{"id": HOSTILE}]}, {}), ()),
    "outcome": ("changesets", outcome, ("apply",)),
    "decisions": ("changesets", foreseen, ("plan", "apply", "watch")),
}


def hostile_file(repository: Repository, text: str, before: str = "", ending: bytes = b".yaml") -> Path:
    """A file of the configuration whose name is hostile."""
    file = repository.config / os.fsdecode(f"{before}{HOSTILE}".replace("/", "").encode() + ending)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def in_files(repository: Repository) -> None:
    """File names and contents that are hostile, and wrong in every way that is told with an excerpt."""
    texts = (
        f"kind: {json.dumps(HOSTILE)}\nmetadata: {{name: a}}\n",
        f"kind: Zone\nmetadata: {{name: a}}\nspec: {{{json.dumps(HOSTILE)}: 1}}\n",
        f"kind: Zone\nmetadata: {{name: {json.dumps(HOSTILE)}}}\n",
        "kind: Zone\nmetadata: {name: b}\nspec: [\x1b\n",
        "kind: Zone # \u202e ::error::FORGED \x85\nmetadata: {nme: b} # \u2028FORGED\n",
    )
    for number, text in enumerate(texts):
        hostile_file(repository, HEAD + text, str(number))
    hostile_file(repository, HEAD, ending=b"\xff.yaml")
    repository.link("config/::error::FORGED.yaml", "/etc/hostname")


def in_references(repository: Repository) -> None:
    """Valid documents that name what is not there, in a file whose name is hostile."""
    head = HEAD + "kind: Policy\nmetadata: {zone: workforce, name: NAME}\nspec: "
    documents = [
        head.replace("NAME", name) + f"{{cedar_file: {json.dumps(file)}}}\n"
        for name, file in (("p", HOSTILE), ("q", f"{HOSTILE}.cedar".replace("/", "")))
    ]
    hostile_file(repository, "---\n".join(documents))


def in_a_plan(repository: Repository) -> None:
    """Documents that can be planned, whose names and values are as hostile as their schemas let them be."""
    name = "::error::FORGED ##[a]FORGED\x85\u2028\u202eFORGED"
    secret = {"from_file": HOSTILE, "version": HOSTILE}
    provider = {"name": "P", "identifier": "https://p.example", "client_secret": secret}
    documents: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("Zone", {"name": name}, {"name": name}),
        ("Role", {"zone": name, "name": name}, {"description": HOSTILE}),
        ("Policy", {"zone": name, "name": name}, {"cedar": f"// {HOSTILE}\n"}),
        ("Provider", {"zone": name, "name": name}, provider),
    ]
    contents = [
        {"apiVersion": "zonewright/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind, metadata, spec in documents
    ]
    hostile_file(repository, "\n---\n".join(json.dumps(each) for each in contents))


def in_settings(repository: Repository) -> None:
    """`zonectl.yaml` names a server and a member that nobody has."""
    repository.write("config/zonectl.yaml", f"owner: a\nserver: {json.dumps(HOSTILE)}\n")


def in_a_member(repository: Repository) -> None:
    """`zonectl.yaml` has a member that nobody knows."""
    repository.write("config/zonectl.yaml", f"owner: a\n{json.dumps(HOSTILE)}: 1\n")


REPOSITORIES = (in_files, in_references, in_a_plan, in_settings, in_a_member)
# Arguments that come from file names when a shell expands a pattern.
ARGUMENTS = (f"--{HOSTILE.replace('=', '')}", HOSTILE)

COMMANDS: dict[str, tuple[str, ...]] = {
    "validate": ("config",),
    "fmt": ("config", "--check", "--diff"),
    "plan": ("config",),
    "drift": ("config",),
    "apply": ("config", "--yes"),
    "watch": ("config",),
    "schema": ("--dir", "config"),
}
HAS_JSON = ("validate", "fmt", "plan", "drift", "apply")


def said(repository: Repository, command: str, *arguments: str) -> str:
    """All that a command prints; `watch` until it has told about its first look."""
    if command == "watch":
        return repository.watch(*arguments)[1]
    environment = {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    return repository.run(command, *arguments, together=True, **environment).stdout


def test_every_command_is_tried() -> None:
    """A new one is in the table, too."""
    assert set(every_command()) == {*COMMANDS, *WITHOUT_CONFIGURATION}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("prepare", REPOSITORIES)
def test_what_a_repository_says(
    trusting: Repository, command: str, prepare: Callable[[Repository], None]
) -> None:
    """Names of files, members and values, in findings, plans, errors and settings."""
    if prepare is in_files:  # once for each command: the harmless repository is the same
        assert "FORGED" not in harmless(said(trusting, command, *COMMANDS[command]))
    prepare(trusting)

    for output in ("text", "json") if command in ("validate", "fmt", "plan") else ("text",):
        extra = ("--output", output) if command in HAS_JSON else ()
        told = harmless(said(trusting, command, *COMMANDS[command], *extra))
        assert told.strip()
        assert "Traceback" not in told
        if output == "text" and command in ("validate", "plan") and prepare in (in_files, in_references):
            assert "FORGED" in told
        if output == "text" and command == "plan":
            assert "FORGED" in told
        if output == "json" and told.startswith("{"):
            json.loads(told)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("validate", "schema")])
@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_server_says(repository: Repository, answering: Answering, command: str, answer: str) -> None:
    """Messages, names, ids and numbers that are none, in plans, drift, errors and receipts."""
    repository.settings["ZONECTL_SERVER"] = answering.url
    path, reply, shown_by = ANSWERS[answer]
    if answer == "names":  # once for each command: the harmless server is the same
        assert "FORGED" not in harmless(said(repository, command, *COMMANDS[command]))
        answering.world.entities.clear()
    answering.path, answering.reply = path, reply()

    for output in ("text", "json") if command in ("plan", "apply") else ("text",):
        extra = ("--output", output) if command in HAS_JSON else ()
        told = harmless(said(repository, command, *COMMANDS[command], *extra))
        assert "Traceback" not in told
        if output == "text" and command in shown_by:
            assert "FORGED" in told


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_an_argument_says(trusting: Repository, command: str, argument: str) -> None:
    """A pattern of the shell makes file names into options and paths."""
    assert "FORGED" in harmless(said(trusting, command, argument))


def test_what_a_path_says(trusting: Repository) -> None:
    """Where a line begins with a file's name, as seen from the directory it is in."""
    bad = trusting.config / "::error::FORGED.yaml"
    bad.write_text("a: 1\n")
    done = subprocess.run(
        trusting.command("validate", "."),
        cwd=trusting.config,
        env=trusting.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert harmless(done.stdout).startswith("\\x3a:error::FORGED.yaml:1:1: error: `apiVersion")


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_on_a_terminal_only_our_own_styles_act(trusting: Repository, command: str) -> None:
    """With colors on, nothing else begins with an escape character."""
    (in_files if command == "validate" else in_a_plan)(trusting)
    environment = trusting.environment(TERM="xterm-256color", COLUMNS="200")
    text = on_a_terminal(trusting.command(command, "config"), trusting.path, environment)
    text = text.replace("\r\n", "\n")

    assert OUR_STYLES.search(text)
    assert "FORGED" in harmless(OUR_STYLES.sub("", text))


def test_a_defect_is_told_without_acting() -> None:
    """The traceback of what nobody has thought of."""
    code = f"import reconciler.terminal as it\nit.prepare()\nraise ValueError({HOSTILE!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FORGED" in harmless(done.stderr)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("harmless: é 漢字 \t ok", "harmless: é 漢字 \t ok"),
        ("a::b ::error::", "a::b ::error::"),
        ("::error::x", "\\x3a:error::x"),
        ("  \t::error::x", "  \t\\x3a:error::x"),
        (["", Styled(":"), ":error::x"], "\\x3a:error::x"),
        (["#", Styled("#[a]")], "\\x23\\x23[a]"),
        ("a ##[b] ##VSO[c]", "a \\x23\\x23[b] \\x23\\x23VSO[c]"),
        ("## a heading", "## a heading"),
        (
            "a\nb\rc\x1b\x7f\x9b\u2028\u202e\U000e0001",
            "a\\x0ab\\x0dc\\x1b\\x7f\\x9b\\u2028\\u202e\\U000e0001",
        ),
        ("name-\udcff", "name-\\xff"),
    ],
)
def test_a_line_is_one_line_of_text(line: Any, expected: str) -> None:
    """What is harmless stays as it is; the rest is written out."""
    assert click.unstyle(rendered(line)) == expected


@pytest.mark.parametrize("text", [HOSTILE, "harmless é", "##[a]", "\U000e0001", "a\\u0023#["])
def test_json_says_the_same(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Escaped in another way, and the same value for who reads it."""
    terminal.print_json({text: [text]})
    told = harmless(capsys.readouterr().out)

    assert json.loads(told) == {text: [text]}


def test_progress_says_numbers_alone(
    answering: Answering, tmp_path: Path, kinds: Kinds, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A server that reports anything else is a server that is not understood."""
    monkeypatch.setattr("reconciler.report.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setenv("ZONECTL_SERVER", answering.url)
    monkeypatch.setenv("ZONECTL_API_KEY", API_KEY)
    (tmp_path / "zone.yaml").write_text(HEAD + "kind: Zone\nmetadata: {name: w}\nspec: {name: w}\n")
    arguments = ["apply", str(tmp_path), "--owner", "a", "--yes", "--organization", ORGANIZATION]
    answering.path, result = "changesets", outcome()[1][0]
    answering.reply = (200, [{"type": "progress", "done": 1, "total": 2}, result], {})
    assert run(arguments) == 0
    assert "applying: 1 of 2" in harmless(capsys.readouterr().err)

    answering.reply = (200, [{"type": "progress", "done": HOSTILE, "total": HOSTILE}, result], {})
    assert run(arguments) == 1
    assert harmless(capsys.readouterr().err)
