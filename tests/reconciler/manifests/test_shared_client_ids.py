"""Client ids that several manifests share, and credentials that expire: what `zonectl validate` says."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

HEAD = "apiVersion: zonewright/v1\n"
ZONE = HEAD + "kind: Zone\nmetadata: {name: acme}\nspec: {name: Acme}\n"


def application(name: str) -> str:
    return f"{HEAD}kind: Application\nmetadata: {{zone: acme, name: {name}}}\nspec: {{name: {name}}}\n"


def credential(name: str, spec: str = "", *, zone: str = "acme", **members: str) -> str:
    """A manifest of a password credential of the application `worker`, with the client id `worker`."""
    values = {"application": "worker", "type": "password", "identifier": "worker", **members}
    told = ", ".join([*(f"{name}: {value}" for name, value in values.items()), *([spec] if spec else [])])
    head = f"{HEAD}kind: ApplicationCredential\nmetadata: {{zone: {zone}, name: {name}}}\n"
    return f"{head}spec: {{{told}}}\n"


@pytest.fixture
def validate(config: Any, zonectl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The result for these credentials beside a zone with the applications `worker` and `other`."""

    monkeypatch.chdir(config.path)

    def call(*documents: str) -> Any:
        config.write("zone.yaml", "---\n".join([ZONE, application("worker"), application("other")]))
        config.write("credentials.yaml", "---\n".join(documents))
        return zonectl("validate", config)

    return call


def test_two_password_credentials_of_an_application_share_a_client_id(validate: Any) -> None:
    """That is how a secret is rotated."""
    result = validate(credential("one"), credential("two"))

    assert (result.exit_code, result.out) == (0, "5 manifests in 2 files: valid\n")


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        (
            [credential("one"), credential("two", application="other")],
            "only objects with the same `application` may share it",
        ),
        (
            [credential("one"), credential("two", type="public")],
            "only objects of type `password` may share it",
        ),
        (
            [credential("one", type="public"), credential("two", type="public")],
            "only objects of type `password` may share it",
        ),
        (
            [credential("one"), credential("two"), credential("three")],
            "at most 2 may share it, and this is one more",
        ),
    ],
)
def test_nobody_else_has_the_client_id(validate: Any, documents: list[str], problem: str) -> None:
    """The finding names the other manifest, and stands at the identifier of the last one."""
    result = validate(*documents)

    assert result.exit_code == 1
    assert (
        f"ApplicationCredential `one` at credentials.yaml:1 has the identifier `worker` too; {problem}"
        in (result.out)
    )
    assert f"credentials.yaml:{4 * len(documents)}:" not in result.out
    assert f"{'1 problem'} in 2 files" in result.out


def test_a_name_that_is_the_client_id_counts_as_one(validate: Any) -> None:
    """A credential without `identifier` is named after its manifest."""
    unnamed = credential("worker", application="other").replace(", identifier: worker", "")

    assert "only objects with the same `application`" in validate(credential("one"), unnamed).out


def test_subjects_of_workloads_may_repeat(config: Any, validate: Any) -> None:
    """The server names `token` credentials: they have no client id in git."""
    workloads = [
        f"{HEAD}kind: ApplicationCredential\nmetadata: {{zone: acme, name: {name}}}\n"
        f"spec: {{application: {name}, type: token, provider: {{external: ci}}, subject: main}}\n"
        for name in ("worker", "other")
    ]

    assert validate(*workloads).exit_code == 0


def test_what_is_released_shares_with_anything(validate: Any) -> None:
    """It is about to be another configuration's."""
    released = credential("two", application="other") + "lifecycle: {release: true}\n"

    assert validate(credential("one"), released).exit_code == 0


def at(**delta: int) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat(timespec="seconds")


@pytest.mark.parametrize(
    ("delta", "note"),
    [
        ({"days": -1}, "expired at"),
        ({"minutes": 30}, "in less than an hour"),
        ({"hours": 5, "minutes": 30}, "in 5 hours"),
        ({"days": 3, "hours": 1}, "in 3 days"),
    ],
    ids=["expired", "minutes", "hours", "days"],
)
def test_a_credential_that_expired_or_soon_will_is_noted(
    validate: Any, delta: dict[str, int], note: str
) -> None:
    """The configuration is valid all the same; the note has the place of the manifest."""
    end = at(**delta)
    result = validate(credential("old", f'expires_at: "{end}"'), credential("new"))

    assert result.exit_code == 0
    assert "note: ApplicationCredential acme/old expire" in result.out
    assert f"`{end}`" in result.out
    assert note in result.out
    assert "credentials.yaml:1" in result.out


def test_a_credential_that_expires_later_is_not_noted(validate: Any) -> None:
    """Two weeks ahead is soon enough."""
    assert "note" not in validate(credential("old", f'expires_at: "{at(days=15)}"')).out


@pytest.mark.parametrize("end", ["tomorrow", '"2026-13-01T00:00:00Z"', "2026-12-01", "1795000000"])
def test_what_is_no_time_is_refused(validate: Any, end: str) -> None:
    """RFC 3339, with date and time."""
    result = validate(credential("old", f"expires_at: {end}"))

    assert result.exit_code == 1
    assert "expires_at" in result.out


def test_a_time_needs_no_quotes(validate: Any) -> None:
    """YAML's own timestamps are read as texts."""
    assert validate(credential("old", "expires_at: 2100-01-01T00:00:00Z")).exit_code == 0


class TestSeparateClientIds:
    """A second credential of an application without `identifier`."""

    def test_is_warned_of_at_its_name(self, validate: Any) -> None:
        """With what to write for either meaning; the manifests are valid."""
        second = credential("two").replace(", identifier: worker", "")
        result = validate(credential("one"), second)
        assert result.exit_code == 0
        assert (
            "credentials.yaml:8:30: warning: without `identifier`, this ApplicationCredential" in result.out
        )
        assert "to rotate its secret with overlap, write `identifier: worker`" in result.out
        assert "to keep both apart, `identifier: two`" in result.out

    def test_is_in_the_json_output(self, validate: Any, config: Any, zonectl: Callable[..., Any]) -> None:
        """Beside `valid: true`; the paths are relative to the root."""
        validate(credential("one"), credential("two").replace(", identifier: worker", ""))
        document = json.loads(zonectl("validate", config, "--output", "json").out)
        assert document["valid"]
        assert [(each["path"], each["line"], each["code"]) for each in document["warnings"]] == [
            ("credentials.yaml", 8, "separate-identifier")
        ]

    @pytest.mark.parametrize(
        ("documents", "warned"),
        [
            (["one", "two"], ["two"]),
            (["one", "two", "three"], ["two", "three"]),
        ],
    )
    def test_of_several_without_one_the_first_is_taken_for_the_older(
        self, validate: Any, documents: list[str], warned: list[str]
    ) -> None:
        """By file and line."""
        made = [credential(name).replace(", identifier: worker", "") for name in documents]
        told = validate(*made).out
        assert [each for each in documents if f"one of its own, `{each}`" in told] == warned

    @pytest.mark.parametrize(
        "other",
        [
            credential("two"),
            credential("two", identifier="two"),
            credential("two", application="other").replace(", identifier: worker", ""),
            credential("two", type="public").replace(", identifier: worker", ""),
            credential("worker").replace(", identifier: worker", ""),
        ],
        ids=["shared", "kept apart", "another application", "another type", "the name is the client id"],
    )
    def test_nothing_is_said_where_it_is_meant(self, validate: Any, other: str) -> None:
        """The same client id, or one of its own that is written."""
        assert "warning" not in validate(credential("one"), other).out
