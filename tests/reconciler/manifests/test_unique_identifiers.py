"""Identifiers that two manifests have, for every kind whose objects have one of their own."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from reconciler.kinds import Kind, load_kinds

REQUIRED: dict[str, dict[str, Any]] = {
    "Application": {"name": "Shown"},
    "Group": {"name": "Shown"},
    "Provider": {"name": "Shown"},
    "Resource": {"name": "Shown"},
    "Policy": {"cedar": "permit (principal, action, resource);"},
    "PolicySet": {"policies": [], "active": False},
}
ZONES = ("acme", "globex")


def has_own(kind: Kind) -> bool:
    """Tell whether each object of the kind has its own handle, and a manifest may write it."""
    return kind.handle in kind.spec.members and kind.handle_shared is None


OWN = [kind for kind in load_kinds().ordered if has_own(kind)]


@pytest.fixture(params=OWN, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of these kinds."""
    found: Kind = request.param
    return found


def document(kind: Kind, name: str, handle: str | None, zone: str = "acme", **lifecycle: Any) -> str:
    """A manifest; without its handle when that is None."""
    written = {} if handle is None else {str(kind.handle): handle}
    return yaml.safe_dump(
        {
            "apiVersion": "zonewright/v1",
            "kind": kind.name,
            "metadata": {"name": name, **({"zone": zone} if kind.zoned else {})},
            "spec": {**REQUIRED.get(kind.name, {}), **written},
            **({"lifecycle": lifecycle} if lifecycle else {}),
        },
        sort_keys=False,
    )


@pytest.fixture
def validate(config: Any, zonectl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The result for these manifests, each in a file of its own (`0.yaml`, ...), beside two zones."""

    monkeypatch.chdir(config.path)

    def call(*documents: str) -> Any:
        head = "apiVersion: zonewright/v1\nkind: Zone\n"
        zones = [f"{head}metadata: {{name: {name}}}\nspec: {{name: {name}}}\n" for name in ZONES]
        config.write("zones.yaml", "---\n".join(zones))
        for number, text in enumerate(documents):
            config.write(f"{number}.yaml", text)
        return zonectl("validate", config)

    return call


def place_of(text: str, member: str) -> str:
    """`line:column` of the last member of that name in a manifest."""
    lines = enumerate(text.splitlines(), 1)
    number, line = [each for each in lines if each[1].startswith(f"  {member}: ")][-1]
    return f"{number}:{line.index(': ') + 3}"


def test_every_kind_with_a_handle_has_it_alone_or_says_who_shares_it() -> None:
    """The table is not empty, and leaves out only what the schema excepts."""
    without = {kind.name for kind in load_kinds().ordered} - {kind.name for kind in OWN}

    assert without == {"ApplicationCredential", "RoleAssignment", "Zone"}


def test_two_objects_of_a_kind_have_two_identifiers(kind: Kind, validate: Callable[..., Any]) -> None:
    """The other half of what follows: with an identifier each, the same manifests are valid."""
    result = validate(document(kind, "one", "same"), document(kind, "two", "other"))

    assert (result.exit_code, result.out.splitlines()[0]) == (0, "4 manifests in 3 files: valid")


def test_the_second_of_two_identifiers_is_refused_with_both_places(
    kind: Kind, validate: Callable[..., Any]
) -> None:
    """The finding stands at the identifier of the later manifest, and names the file of the earlier one."""
    last = document(kind, "two", "same")
    result = validate(document(kind, "one", "same"), last)

    assert result.exit_code == 1
    told = f"{kind.name} `one` at 0.yaml:1 has the {kind.handle} `same` too; each {kind.name} of "
    assert told in result.out
    assert f"1.yaml:{place_of(last, str(kind.handle))}" in result.out


def test_each_further_one_is_compared_with_the_first(kind: Kind, validate: Callable[..., Any]) -> None:
    """Three manifests are two findings."""
    result = validate(*(document(kind, name, "same") for name in ("one", "two", "three")))

    assert result.out.count(f"{kind.name} `one` at 0.yaml:1 has the {kind.handle} `same` too") == 2
    assert "2 problems" in result.out


@pytest.mark.parametrize("written_last", [True, False])
def test_a_name_that_is_an_identifier_counts_as_one(
    kind: Kind, validate: Callable[..., Any], *, written_last: bool
) -> None:
    """A manifest without an identifier has its name as one, and the message says so."""
    pair = [document(kind, "same", None), document(kind, "two", "same")]
    result = validate(*(pair if written_last else reversed(pair)))

    assert result.exit_code == 1
    why = f"without `{kind.handle}` in the manifest, it is the manifest's name"
    assert f"has the {kind.handle} `same` too ({why});" in result.out
    line = pair[0].splitlines().index("  name: same") + 1
    assert written_last or f"1.yaml:{line}:9" in result.out


def test_an_object_described_twice_is_one_problem(kind: Kind, validate: Callable[..., Any]) -> None:
    """That both descriptions have its identifier is no news."""
    result = validate(*[document(kind, "one", "same")] * 2)

    assert "is already described at 0.yaml:1" in result.out
    assert "1 problem " in result.out


def test_identifiers_of_two_zones_are_independent(kind: Kind, validate: Callable[..., Any]) -> None:
    """A zone's are unique within it, an organization's in all of it."""
    result = validate(document(kind, "one", "same"), document(kind, "two", "same", zone="globex"))

    assert result.exit_code == (0 if kind.zoned else 1)


@pytest.mark.parametrize("release", [True, False])
def test_what_git_does_not_decide_is_left_to_the_server(
    kind: Kind, validate: Callable[..., Any], *, release: bool
) -> None:
    """An object that is released, or whose identifier is ignored, may have another one there."""
    lifecycle: dict[str, Any] = {"release": True} if release else {"ignore": [kind.handle]}
    result = validate(document(kind, "one", "same"), document(kind, "two", "same", **lifecycle))

    assert result.exit_code == 0
