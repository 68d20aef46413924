"""`zonectl secret`: shared keys of resources in a zone's vault, against a real server."""

import io
import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.conftest import Result
from tests.reconciler.real.company import Company

PAYROLL = "https://payroll.example"
VALUE = "key-of-payroll-4711"


class Input(io.TextIOWrapper):
    """Standard input with this content, that is no terminal."""

    def __init__(self, content: str) -> None:
        super().__init__(io.BytesIO(content.encode()))


@pytest.fixture
def command(company: Company, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `zonectl secret ...` in the company's zone, with that standard input."""

    def run(verb: str, *arguments: object, value: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", Input(value))
        done: Result = company.zonectl("secret", verb, *arguments, "--zone", company.zone)
        assert VALUE not in done.out + done.err
        return done

    return run


def stored(company: Company) -> list[tuple[str, str, int]]:
    """Name, value and version of each secret in the vault."""
    found = [
        company.send("GET", f"{company.collection('secrets')}/{each['id']}")
        for each in company.send("GET", company.collection("secrets"))
    ]
    return [(each["name"], each["data"]["token"], each["version"]) for each in found]


@pytest.mark.parametrize("by", ["identifier", "id"])
def test_set_stores_a_value_from_standard_input(company: Company, command: Any, by: str) -> None:
    """Without the line end of the pipe; the secret is named as the resource is."""
    resource = PAYROLL if by == "identifier" else company.found("resources", identifier=PAYROLL)["id"]
    done = command("set", resource, value=f"{VALUE}\n")
    assert (done.exit_code, done.err) == (0, "")
    assert stored(company) == [("Payroll", VALUE, 1)]


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        ("service-vault", "stored; applications get it with their next exchange"),
        ("service-sts", "the resource's `credential_provider` is `service-sts`"),
        (None, "the resource's `credential_provider` is not set"),
    ],
)
def test_set_says_whether_exchanges_hand_it_out(
    company: Company, command: Any, provider: str | None, told: str
) -> None:
    """Only the vault does; for another provider it says what to set."""
    named = company.found("providers", identifier=provider)["id"] if provider is not None else None
    path = company.path("resources", identifier=PAYROLL)
    company.send_json("PATCH", path, {"credential_provider_id": named})
    done = command("set", PAYROLL, value=VALUE)

    assert done.exit_code == 0
    assert told in done.out
    assert ("no exchange hands it out" in done.out) is (provider != "service-vault")
    assert ("`{external: service-vault}`" in done.out) is (provider != "service-vault")


def test_set_replaces_the_value_there_is(company: Company, command: Any, tmp_path: Path) -> None:
    """The same secret has another version, here from a file."""
    command("set", PAYROLL, value="another")
    file = tmp_path / "key"
    file.write_text(f"{VALUE}\r\n")
    assert command("set", PAYROLL, "--value-file", file).exit_code == 0
    assert stored(company) == [("Payroll", VALUE, 2)]


def test_list_and_json_never_have_a_value(company: Company, command: Any) -> None:
    """What the secret is of, its name, type and version; `command` holds every output against the value."""
    assert "there are no secrets in this zone" in command("list").out
    stored_document = json.loads(command("set", PAYROLL, "--output", "json", value=VALUE).out)
    listed = json.loads(command("list", "--output", "json").out)
    assert listed == stored_document
    (one,) = listed["secrets"]
    assert (one["resource"], one["name"], one["type"], one["version"]) == (PAYROLL, "Payroll", "token", 1)
    assert f"{PAYROLL}  Payroll  token, version 1, set at " in command("list").out


def test_delete_deletes_it(company: Company, command: Any) -> None:
    """And says what there is no more; there is nothing to delete then."""
    command("set", PAYROLL, value=VALUE)
    assert command("delete", PAYROLL, "--yes").exit_code == 0
    assert stored(company) == []
    again = command("delete", PAYROLL, "--yes")
    assert (again.exit_code, "no key is stored for the resource" in again.err) == (1, True)


def test_delete_without_a_terminal_has_to_be_confirmed(company: Company, command: Any) -> None:
    """By `--yes`."""
    command("set", PAYROLL, value=VALUE)
    assert command("delete", PAYROLL).exit_code == 64
    assert len(stored(company)) == 1


def test_several_secrets_of_a_resource_are_told_apart_by_name(company: Company, command: Any) -> None:
    """Nobody knows otherwise which one is meant."""
    resource = company.found("resources", identifier=PAYROLL)["id"]
    for name in ("one", "two"):
        data = {"type": "token", "token": "x"}
        company.send("POST", company.collection("secrets"), name=name, entity_id=resource, data=data)
    refused = command("set", PAYROLL, value=VALUE)
    assert (refused.exit_code, "has 2 secrets" in refused.err) == (1, True)
    assert command("set", PAYROLL, "--name", "two", value=VALUE).exit_code == 0
    assert sorted(stored(company)) == [("one", "x", 1), ("two", VALUE, 2)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "there is no value in standard input"),
        ("\n", "there is no value"),
        ("x" * 65_537, "is larger than"),
    ],
    ids=["empty", "a line end", "too large"],
)
def test_a_value_that_is_none_is_refused(company: Company, command: Any, value: str, message: str) -> None:
    """Before anything is sent."""
    refused = command("set", PAYROLL, value=value)
    assert (refused.exit_code, message in refused.err) == (1, True)
    assert stored(company) == []


def test_its_own_credential_is_no_value(company: Company, command: Any) -> None:
    """Every application that may request the resource would get it."""
    refused = command("set", PAYROLL, value=company.server.api_key)
    assert refused.exit_code == 5
    assert company.server.api_key not in refused.err
    assert stored(company) == []


def test_an_unknown_resource_is_told(command: Any) -> None:
    """With its name."""
    refused = command("set", "https://nowhere.example", value=VALUE)
    assert (refused.exit_code, "`https://nowhere.example`" in refused.err) == (1, True)


def test_a_link_of_the_repository_is_no_value(
    company: Company, command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pull request may have put it there. The file that it leads to is taken by its own name."""
    monkeypatch.chdir(company.folder.path)
    (tmp_path / "outside").write_text(VALUE)
    (company.folder.path / "key").symlink_to(tmp_path / "outside")
    assert command("set", PAYROLL, "--value-file", tmp_path / "outside").exit_code == 0
    refused = command("set", PAYROLL, "--value-file", "key")
    assert (refused.exit_code, "symbolic link" in refused.err) == (5, True)


def test_a_terminal_is_refused(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would show the value while it is typed."""
    parent, child = pty.openpty()
    with os.fdopen(child, "r") as terminal, os.fdopen(parent, "wb"):
        monkeypatch.setattr("sys.stdin", terminal)
        refused = company.zonectl("secret", "set", PAYROLL, "--zone", company.zone)
    assert (refused.exit_code, "standard input is a terminal" in refused.err) == (64, True)


def test_a_credential_that_may_only_read_is_refused(
    company: Company, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server; and nothing of the value is in the message."""
    command("set", PAYROLL, value="another")
    company.as_key("org_viewer", monkeypatch)
    refused = command("set", PAYROLL, value=VALUE)
    assert refused.exit_code == 1
    assert stored(company) == [("Payroll", "another", 1)]
