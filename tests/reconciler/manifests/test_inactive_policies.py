"""Policies that no active policy set lists decide nothing, and `zonectl validate` warns of them."""

import json
from collections.abc import Callable, Iterator

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import manifest, zone

from reconciler.kinds import Manifest
from reconciler.manifests.inactive_policies import inactive_policies

CEDAR = "forbid(principal, action, resource);"
POLICY = manifest("Policy", "guard", cedar=CEDAR)
OTHER = manifest("PolicySet", "other", policies=["other"])
LISTED = ["guard"]


def policy_set(policies: object = LISTED, name: str = "main", **spec: object) -> Manifest:
    return manifest("PolicySet", name, policies=policies, **spec)


def kept(member: str, policies: object = LISTED, **spec: object) -> Manifest:
    """A policy set of which others set a member."""
    return manifest("PolicySet", "main", lifecycle={"ignore": [member]}, policies=policies, **spec)


RELEASED = manifest("PolicySet", "main", lifecycle={"release": True}, policies=LISTED)


def warned(*manifests: Manifest, elsewhere: tuple[str, ...] = ()) -> list[str]:
    """The names of the policies, and the warnings of them, as one text each."""
    return [f"{each.name}: {message}" for each, message in inactive_policies(manifests, elsewhere)]


class TestSilent:
    @pytest.mark.parametrize(
        "sets",
        [
            [policy_set()],
            [policy_set(active=True)],
            [policy_set(["other", "guard"])],
            [policy_set(), policy_set([], "draft", active=False)],
            [policy_set([{"external": "guard"}])],
            [policy_set([{"owner": "acme/identity", "name": "guard"}])],
            [kept("active", active=False)],
            [kept("policies", [])],
            [kept("active", active=False), policy_set([], "draft", active=False)],
            [RELEASED],
        ],
        ids=[
            "listed",
            "active is written",
            "among others",
            "an inactive set without it",
            "listed by identifier",
            "listed by owner",
            "others activate the set",
            "others list policies",
            "others activate one of two",
            "the set is released",
        ],
    )
    def test_a_policy_of_a_set_that_may_be_active(self, sets: list[Manifest]) -> None:
        """It decides, or it may."""
        assert warned(zone(), POLICY, *sets) == []

    @pytest.mark.parametrize("sets", [[], [policy_set(active=False)]], ids=["no set", "an inactive set"])
    def test_a_policy_in_a_zone_of_another_configuration(self, sets: list[Manifest]) -> None:
        """The active policy set is there; `plan` reads it."""
        assert warned(POLICY, *sets, elsewhere=("workforce",)) == []

    def test_a_released_policy(self) -> None:
        """Another configuration may take it."""
        assert warned(zone(), manifest("Policy", "guard", lifecycle={"release": True}, cedar=CEDAR)) == []


class TestWarned:
    @pytest.mark.parametrize(
        ("sets", "told"),
        [
            (
                [policy_set([])],
                "`main` (PolicySet.yaml:1), the active policy set of zone `workforce`",
            ),
            ([policy_set([])], "add `guard` to its `policies`"),
            ([kept("name", [])], "add `guard` to its `policies`"),
            ([policy_set([], active=False)], "list `guard` in a PolicySet with `active: true`"),
            ([kept("active", [], active=False)], "list `guard` in a PolicySet with `active: true`"),
            ([], "list `guard` in a PolicySet with `active: true`"),
            ([], "copies of the zone's default policies, which an active policy set replaces"),
            ([], "unless another one of zone `workforce` does, it decides nothing"),
        ],
    )
    def test_a_policy_that_no_active_set_lists(self, sets: list[Manifest], told: str) -> None:
        """With the set that should list it, or how to make one."""
        (found,) = warned(zone(), POLICY, *sets)
        assert found.startswith("guard: ")
        assert told in found

    def test_a_policy_beside_the_active_set_of_this_configuration_in_another_ones_zone(self) -> None:
        """Only one policy set of a zone is active, and this is the one."""
        assert len(warned(POLICY, policy_set([]), elsewhere=("workforce",))) == 1

    def test_a_set_of_another_zone_does_not_count(self) -> None:
        """Policy sets stay within their zone."""
        other = manifest("PolicySet", "main", "shop", policies=LISTED)
        assert len(warned(zone(), zone("shop"), POLICY, other)) == 1


class Counted(list[object]):
    """A list that counts how often it is read through."""

    reads = 0

    def __iter__(self) -> Iterator[object]:
        self.reads += 1
        return super().__iter__()


class TestInactiveSets:
    """What an inactive set lists is warned of once, at the set."""

    MANY = [manifest("Policy", f"p-{number}", cedar=CEDAR) for number in range(7)]
    DRAFT = policy_set([each.name for each in MANY], "draft", active=False)

    def test_an_active_set_is_silent(self) -> None:
        """Its policies decide."""
        assert warned(zone(), *self.MANY, policy_set([each.name for each in self.MANY])) == []

    def test_the_set_has_one_warning_for_all_its_policies(self) -> None:
        """With some names, the number of the others, and what to write."""
        (found,) = warned(zone(), *self.MANY, self.DRAFT)
        assert found.startswith(
            "draft: this PolicySet has `active: false`, and unless an active one of zone `workforce` lists"
            " them, its policies `p-0`, `p-1`, `p-2`, `p-3`, `p-4` and 2 more decide nothing; write"
            " `active: true`: "
        )

    def test_beside_the_active_set_too(self) -> None:
        """It names the set that would have to list them."""
        (found,) = warned(zone(), POLICY, policy_set([]), policy_set(name="draft", active=False))
        assert found == (
            "draft: this PolicySet is not active, and its policy `guard` decides nothing: PolicySet `main`"
            " (PolicySet.yaml:1), the active policy set of zone `workforce`, does not list it; add it to its"
            " `policies`"
        )

    def test_what_no_set_lists_is_warned_of_by_itself(self) -> None:
        """Beside the set."""
        found = warned(zone(), *self.MANY, POLICY, self.DRAFT)
        assert [each.partition(":")[0] for each in found] == ["draft", "guard"]

    def test_only_a_set_without_permit_is_told_to_copy_the_default_policies(self) -> None:
        """One with a `permit` decides by itself, which may be meant."""
        manifests = [zone(), POLICY, policy_set(name="draft", active=False)]
        ((_, permitting),) = inactive_policies(manifests, permitting={POLICY.key})
        assert "`active: true`: the set then replaces the zone's default policies" in permitting
        ((_, forbidding),) = inactive_policies(manifests)
        assert "list copies of these, too" in forbidding

    @pytest.mark.parametrize("active", [True, False])
    def test_each_list_is_read_once(self, *, active: bool) -> None:
        """Whatever the number of policies and sets: this is read of pull requests of any size."""
        entries: list[object] = [*(f"q-{number}" for number in range(50)), {"external": "p-0"}]
        lists = [Counted(entries) for _ in range(20)]
        sets = [
            policy_set(each, f"set-{number}", active=active and not number)
            for number, each in enumerate(lists)
        ]
        assert len(warned(zone(), *self.MANY, *sets)) == (6 if active else 7)
        assert {each.reads for each in lists} == {1}


MANIFESTS = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop}
---
apiVersion: zonewright/v1
kind: Policy
metadata: {zone: shop, name: guard}
spec: {cedar: "forbid(principal, action, resource);"}
"""
SET = """\
---
apiVersion: zonewright/v1
kind: PolicySet
metadata: {zone: shop, name: main}
spec: {policies: [guard]}
"""


class TestValidate:
    def test_prints_nothing_more_of_a_policy_that_decides(
        self, config: Folder, zonectl: Callable[..., Result]
    ) -> None:
        """Neither as text nor as JSON."""
        config.write("all.yaml", MANIFESTS + SET)
        assert zonectl("validate", config).out == "3 manifests in 1 file: valid\n"
        assert "warnings" not in json.loads(zonectl("validate", config, "--output", "json").out)

    def test_prints_the_place_and_exits_with_0(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """The manifests are valid all the same."""
        config.write("all.yaml", MANIFESTS)
        result = zonectl("validate", config)
        assert result.exit_code == 0
        assert "all.yaml:8:30: warning: no active policy set of this configuration lists" in result.out

    def test_has_it_in_json(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """With a code of its own."""
        config.write("all.yaml", MANIFESTS)
        document = json.loads(zonectl("validate", config, "--output", "json").out)
        assert document["valid"]
        assert [(each["path"], each["line"], each["code"]) for each in document["warnings"]] == [
            ("all.yaml", 8, "inactive-policy")
        ]

    def test_counts_what_it_does_not_show(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """In text and in JSON; 100 of a code are shown."""
        policies = MANIFESTS.partition("---\n")[2]
        config.write("all.yaml", MANIFESTS)
        more = [policies.replace("guard", f"guard-{number}") for number in range(102)]
        config.write("more.yaml", "---\n".join(more))
        told = "3 more warnings like these are not shown; correct these first"
        assert told in zonectl("validate", config).out
        warnings = json.loads(zonectl("validate", config, "--output", "json").out)["warnings"]
        assert len(warnings) == 101
        assert [each["code"] for each in warnings if each["message"] == told] == ["inactive-policy"]

        config.write("more.yaml", "---\n".join(more[:99]))
        assert "more warnings" not in zonectl("validate", config).out

    def test_names_the_files_in_its_messages_as_seen_from_here(
        self, config: Folder, zonectl: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As at the beginning of the line; in JSON relative to the configuration's root."""
        config.write("all.yaml", MANIFESTS + SET.replace("[guard]", "[]"))
        monkeypatch.chdir(config.path.parent)
        assert "PolicySet `main` (config/all.yaml:11), the active" in zonectl("validate", config).out
        (found,) = json.loads(zonectl("validate", config, "--output", "json").out)["warnings"]
        assert "PolicySet `main` (all.yaml:11), the active" in found["message"]

    def test_reads_the_permit_in_a_file(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """The text of a policy may be beside its manifest."""
        config.write("guard.cedar", "permit(principal, action, resource);")
        inline = '{cedar: "forbid(principal, action, resource);"}'
        draft = SET.replace("[guard]", "[guard], active: false")
        config.write("all.yaml", MANIFESTS + draft)
        assert "list copies of these, too" in zonectl("validate", config).out
        config.write("all.yaml", MANIFESTS.replace(inline, "{cedar_file: guard.cedar}") + draft)
        assert "the set then replaces the zone's default policies" in zonectl("validate", config).out
