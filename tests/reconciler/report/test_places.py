"""Places of manifests in text: relative to the current directory; in JSON relative to the root."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.apply.texts import AGENT, HEAD, KEY, ZONE, Zonectl
from tests.reconciler.fake_server import FakeServer

from reconciler.manifests import Configuration, find_source_files
from reconciler.report.places import places_from_here

MISSING = (
    HEAD + "kind: RoleAssignment\nmetadata: {zone: workforce, name: a}\n"
    "spec: {role: {external: nobody}, principal: {user: ann@acme.example}}\n"
)


@pytest.fixture
def described(config: Any, server: FakeServer) -> Any:
    """A configuration in a directory of its own, below a repository's."""
    (config.path.parent / ".git").mkdir()
    config.write("zone.yaml", ZONE)
    config.write("agent.yaml", AGENT)
    return config


@pytest.mark.parametrize(
    ("below", "file"),
    [(".", "config/agent.yaml:1"), ("config", "agent.yaml:1")],
    ids=["repository", "configuration"],
)
def test_plan_names_files_as_seen_from_here(
    described: Any, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch, below: str, file: str
) -> None:
    """An editor opens them from the current directory."""
    monkeypatch.chdir(described.path.parent / below)
    assert f"+ create Application workforce/agent  {file}\n" in zonectl("plan", described).out


def test_plan_from_elsewhere_names_whole_paths(
    described: Any,
    zonectl: Zonectl,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A path that leads upwards is none that is read easily."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert f"agent  {described.path}/agent.yaml:1\n" in zonectl("plan", described).out


def test_json_and_digest_do_not_depend_on_the_directory(
    described: Any, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compared on other machines, as ownership records are."""
    found = []
    for directory in (described.path, described.path.parent):
        monkeypatch.chdir(directory)
        found.append(json.loads(zonectl("plan", described, "--output", "json").out))
    assert found[0] == found[1]
    assert {each["reason"] for each in found[0]["actions"]} == {"config/zone.yaml:1", "config/agent.yaml:1"}


def test_refusals_and_notes_name_files_as_seen_from_here(
    described: Any, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the sentence around the place."""
    monkeypatch.chdir(described.path)
    described.write(
        "key.yaml", KEY.replace("type: password", "type: password, expires_at: 2020-01-01T00:00:00Z")
    )
    noted = zonectl("validate", described).out
    assert "  key.yaml:1\n" in noted
    assert "config/key.yaml" not in noted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("config/a.yaml:3", "a.yaml:3"),
        ("config/a.yaml:3: Group `x` belongs to somebody", "a.yaml:3: Group `x` belongs to somebody"),
        ("Group x is protected (config/a.yaml:3); keep it", "Group x is protected (a.yaml:3); keep it"),
        ("Group `x` at config/a.yaml:3 has it too", "Group `x` at a.yaml:3 has it too"),
        ("Group `x` (config/a.yaml:3), the first", "Group `x` (a.yaml:3), the first"),
        ("config/other.yaml:3", "config/other.yaml:3"),
        ("no manifest describes it any more", "no manifest describes it any more"),
        ("line 4 of its text", "line 4 of its text"),
    ],
)
def test_only_places_of_the_configuration_are_changed(
    config: Any, monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    """A sentence stays as it is, and so does a file that is no manifest."""
    (config.path.parent / ".git").mkdir()
    config.write("a.yaml", ZONE)
    monkeypatch.chdir(config.path)
    source = find_source_files([Path()])
    assert places_from_here(Configuration(source, (), (), 1))(text) == shown
