"""Names in active policies that match no object: found after the plan, with their place in git."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.reconciler.factories import OWNER, manifest
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, entity, record, snapshot

from reconciler.kinds import Entity, InForce, Manifest, MissingName, load_kinds
from reconciler.plan import MissingPolicyName
from reconciler.plan.matching import Matcher
from reconciler.plan.missing_names import MissingNameSearch

NAME = 'Group::"leavers"'
CEDAR = f"permit (principal, action, resource);\n  forbid (principal in {NAME}, action, resource);\n"
MISSING = MissingName("p1", "Guard", "Group", "leavers", 2, 27)
SET = entity("PolicySet", "s1", {"name": "main"}, in_force=InForce(1, 1, missing_names=(MISSING,)))
GUARD = entity("Policy", "p1", {"name": "guard", "cedar": CEDAR}, owned=record("guard"))


def guard(cedar: str = CEDAR, *, file: str | None = "guard.cedar", **spec: Any) -> Manifest:
    """The policy's manifest."""
    made = manifest("Policy", "guard", cedar=cedar, **spec)
    return replace(made, files={"cedar": file}) if file is not None else made


def missing(
    *manifests: Manifest,
    policy: Entity | None = GUARD,
    zones: Iterable[str] = (ZONE_ID,),
    others: tuple[Entity, ...] = (),
    policy_set: Entity = SET,
) -> list[MissingPolicyName]:
    """What is missing in the zone."""
    entities = [a_zone(), policy_set, *([policy] if policy is not None else []), *others]
    matcher = Matcher([manifest("Zone", "workforce", name="W"), *manifests], snapshot(*entities), OWNER)
    for match in matcher.matches.values():
        matcher.resolve(match)
    names = dict.fromkeys(zones, "workforce")

    def hint(word: str, known: Iterable[str]) -> str:
        return f"{word}? of {sorted(known)}"

    return list(MissingNameSearch(matcher, load_kinds(), names, hint).all())


def test_the_place_is_where_the_file_has_it() -> None:
    """Line and column of the name itself, in git and not on the server."""
    moved = f"// why\n\n{CEDAR}"
    (found,) = missing(guard(moved))
    assert found.place == f"guard.cedar:4:{moved.splitlines()[3].index(NAME) + 1}"


def test_without_a_file_it_is_the_manifest() -> None:
    """The text stands in it."""
    (found,) = missing(guard(file=None))
    assert found.place == "Policy.yaml:1"


def test_it_says_what_is_missing_and_for_whom() -> None:
    """Zone, name and policy as people call them, and that git means it."""
    (found,) = missing(guard())
    assert (found.zone, found.name, found.policy, found.managed) == ("workforce", NAME, "guard", True)


def test_what_was_meant_is_sought_among_names_of_the_kind() -> None:
    """Another kind's names would not do."""
    others = entity("Group", "g1", {"identifier": "leaver"}), entity("Role", "r1", {"identifier": "leaving"})
    (found,) = missing(guard(), others=others)
    assert found.hint == "leavers? of ['leaver']"


@pytest.mark.parametrize(
    "made",
    [
        manifest("Group", "leavers", name="L"),
        manifest("Group", "others", name="L", identifier="leavers"),
    ],
    ids=["by its name", "by its identifier"],
)
def test_what_the_plan_makes_is_not_missing(made: Manifest) -> None:
    """Afterwards something has the name."""
    assert missing(guard(), made) == []


@pytest.mark.parametrize(
    "made",
    [
        manifest("Role", "leavers"),
        manifest("Group", "leavers", name="L", identifier="other"),
        manifest("Group", "leavers", name="L", lifecycle={"release": True}),
    ],
    ids=["another kind", "another identifier", "released"],
)
def test_what_the_plan_makes_otherwise_is_still_missing(made: Manifest) -> None:
    """Policies go by kind and identifier; and what is released is not made."""
    assert len(missing(guard(), made)) == 1


def test_what_git_says_is_absent_is_not_missing() -> None:
    """Somebody has thought of it."""
    assert missing(guard(absent_names=[NAME])) == []
    assert len(missing(guard(absent_names=['Group::"others"']))) == 1


def test_what_gits_text_has_no_more_is_not_missing() -> None:
    """This plan takes it out."""
    assert missing(guard("permit (principal, action, resource);\n")) == []


def test_of_a_text_that_nobody_can_read_it_is_still_told() -> None:
    """By the line that the server knows."""
    (found,) = missing(guard("permit (principal, action"))
    assert found.place == "line 2 of its text"


def test_of_an_unreadable_text_in_a_manifest_the_place_is_the_manifest() -> None:
    """Without a file of its own, the text is where the manifest is."""
    (found,) = missing(guard("permit (principal, action", file=None))
    assert found.place == "Policy.yaml:1"


def test_a_policy_of_git_is_managed_and_has_its_manifest_name() -> None:
    """The name in the ownership record, not the one that the server reports with the missing name."""
    (found,) = missing(guard())
    assert (found.policy, found.managed, found.zone) == ("guard", True, "workforce")


def test_missing_names_are_sorted_by_zone_policy_and_name() -> None:
    """The order does not depend on the snapshot's."""
    names = ['Group::"a"', 'Group::"b"', NAME]
    ones = tuple(replace(MISSING, id=each) for each in ("b", "leavers", "a"))
    several = replace(SET, in_force=InForce(1, 1, missing_names=ones))
    found = missing(policy=None, policy_set=several)
    assert [each.name for each in found] == names


def test_a_policy_that_goes_names_nothing() -> None:
    """No manifest describes it any more."""
    assert missing() == []


@pytest.mark.parametrize(
    ("policy", "label"),
    [
        (entity("Policy", "p1", {"name": "g"}, owned=record("theirs", owner=OTHER)), "theirs"),
        (entity("Policy", "p1", {"name": "g"}), "Guard"),
        (None, "Guard"),
    ],
    ids=["another owner's", "nobody's", "archived"],
)
def test_of_a_policy_of_others_the_line_is_told(policy: Entity | None, label: str) -> None:
    """Git does not have the text, and does not mean it."""
    (found,) = missing(policy=policy)
    assert (found.policy, found.place, found.managed) == (label, "line 2 of its text", False)


def test_in_other_zones_nothing_is_sought() -> None:
    """The configuration has nothing in them."""
    assert missing(guard(), zones=[]) == []
    assert missing(guard(), zones=["another"]) == []
