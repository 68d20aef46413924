"""Plan files: each is read as it was written, and any other document is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.reconciler.factories import plan_for
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import action, plan

from reconciler.kinds import IncludedVersion, InForce, Manifest
from reconciler.plan import (
    FieldChange,
    Plan,
    PolicySetChange,
    PrefixExemption,
    SimilarOwner,
    WidenedAccess,
    read_plan,
)
from reconciler.plan.model import ChangeState, Op, digest_of
from reconciler.plan.saved_plan import PlanUnreadable

IN_FORCE = InForce(1, 2, contents=(IncludedVersion("Policy", "p", "base", 1, {"cedar": "permit"}),))
LATEST = InForce(1, 2, before_is_latest=True)
CHANGES = (
    FieldChange("name", "a", "b", ChangeState.PENDING),
    FieldChange("description", "by hand", "ours", ChangeState.DRIFT, applied="ours"),
    FieldChange("consent", "x", "y", ChangeState.CONFLICT, applied="z"),
    FieldChange("cedar", "permit", "forbid", ChangeState.DRIFT, "forbid", IN_FORCE),
    FieldChange("policies", [], ["p"], ChangeState.PENDING, None, LATEST),
    FieldChange("members", ["a@x.example"], ["a@x.example"], ChangeState.KEEP),
    FieldChange("client_secret", None, {"secret": {"from_env": "X", "version": "1"}}),
)
EVERYTHING = plan(
    action(Op.UPDATE, "Group", "staff", *CHANGES, handle="staff", protected=True),
    action(Op.DELETE, "Zone", "old", takes_along=3, secret_ends=True),
    action(Op.RENAME, "Role", "reader", previous_name="viewer"),
    action(Op.DELETE, "Group", "former", zone="a", moved_to="b"),
    action(Op.CREATE, "Group", "former", zone="b", moved_from="a", deleted=True),
    action(Op.CREATE, "ApplicationCredential", "key", shown_once=True),
    operations=[{"op": "delete", "kind": "Zone", "id": "Zone-old"}],
    owned={"Group": 3, "Zone": 1},
    manifest_count=7,
    source={"commit": "abc"},
    refused=("somebody else has it",),
    budgets={"Group": "20%", "Role": 3},
    deciding=(PolicySetChange("w", "PolicySet/main", None, forbids=("base",), drift=True),),
    widened=(WidenedAccess("w", 'Group::"g"', "base", "line 1 of its text", "forbid", 1, gone=True),),
    exempt=(PrefixExemption("w", "https://api.example", ("Resource/books",)),),
)


def saved(found: Plan) -> bytes:
    """The file of a plan."""
    return orjson.dumps(found.as_json())


def forged(**members: Any) -> bytes:
    """The file with other members, by somebody who knows how its digest is made."""
    content: dict[str, Any] = {**EVERYTHING.as_json(), **members}
    del content["digest"]
    return orjson.dumps({**content, "digest": digest_of(content)})


def of_action(**members: Any) -> bytes:
    """The file with other members of the first action."""
    first, *rest = EVERYTHING.as_json()["actions"]
    return forged(actions=[{**first, **members}, *rest])


class TestReading:
    def test_a_real_plan_is_read_as_it_was_written(self, world: World, company: list[Manifest]) -> None:
        """Everything of a whole company, and the digest."""
        made = plan_for(world, company)
        again = read_plan(saved(made))
        assert again == made
        assert again.digest == made.digest

    def test_every_member_is_read_as_it_was_written(self) -> None:
        """Also those that few plans have."""
        assert read_plan(saved(EVERYTHING)) == EVERYTHING

    @pytest.mark.parametrize(
        "name", ["actions", "operations", "owned", "budgets", "deciding", "widened", "exempt", "refused"]
    )
    def test_each_member_is_part_of_what_is_compared(self, name: str) -> None:
        """A plan without it is another plan, under another digest where it says what is done."""
        less: dict[str, Any] = {name: type(getattr(EVERYTHING, name))()}
        other = read_plan(saved(replace(EVERYTHING, _digest=[], **less)))
        assert other != EVERYTHING
        assert (other.digest == EVERYTHING.digest) is (name == "owned")

    def test_it_is_known_to_come_from_a_file(self) -> None:
        """Guards believe less of it."""
        assert read_plan(saved(EVERYTHING)).saved
        assert not EVERYTHING.saved

    @pytest.mark.parametrize(
        "members",
        [
            {"similar_owner": SimilarOwner("acme/other", 3)},
            {"names_writers": False},
            {"undelivered": (action(Op.UPDATE, "ApplicationCredential", "key"),)},
        ],
        ids=str,
    )
    def test_what_stands_beside_a_plan_is_not_read(self, members: dict[str, Any]) -> None:
        """It does not belong to what is done, and the file may say anything of it."""
        assert read_plan(saved(replace(EVERYTHING, _digest=[], **members))) == EVERYTHING


class TestRefusing:
    @pytest.mark.parametrize(
        "text", [b"", b"{", b"actions: []", b"\xff", b"[]", b"7", b"null", b'"plan"', b"{}"]
    )
    def test_what_is_no_plan(self, text: bytes) -> None:
        """Another file, half a file, or nothing."""
        with pytest.raises(PlanUnreadable, match="is not a plan"):
            read_plan(text)

    def test_a_plan_of_another_format_is_refused(self) -> None:
        """A later version may mean something else by the same members."""
        with pytest.raises(PlanUnreadable, match="is not a plan of the form"):
            read_plan(forged(format="zonectl/plan/v99"))

    @pytest.mark.parametrize("digest", [None, "", "sha256:00", 7])
    def test_a_digest_that_is_not_its_own(self, digest: Any) -> None:
        """Whoever approved a digest approved this plan and no other."""
        with pytest.raises(PlanUnreadable, match="digest"):
            read_plan(orjson.dumps({**EVERYTHING.as_json(), "digest": digest}))

    @pytest.mark.parametrize(
        "name", ["owner", "server", "organization_id", "actions", "operations", "summary"]
    )
    def test_a_member_that_was_changed(self, name: str) -> None:
        """Under the digest of before."""
        with pytest.raises(PlanUnreadable, match="digest"):
            read_plan(orjson.dumps({**EVERYTHING.as_json(), name: []}))

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(lambda: forged(actions=None), id="no actions"),
            pytest.param(lambda: forged(actions=[7]), id="an action that is a number"),
            pytest.param(lambda: forged(actions=[{}]), id="an action without members"),
            pytest.param(lambda: forged(tool="zonectl"), id="a tool without a version"),
            pytest.param(lambda: of_action(op="purge"), id="an unknown operation"),
            pytest.param(
                lambda: of_action(changes=[{"field": "a", "before": 1, "after": 2, "state": "odd"}]),
                id="an unknown state",
            ),
            pytest.param(lambda: of_action(changes=[{"field": "a", "before": 1}]), id="half a change"),
            pytest.param(lambda: forged(deciding=[{}]), id="half a decision"),
            pytest.param(lambda: forged(widened=[{"rule": "forbid"}]), id="half a widened policy"),
        ],
    )
    def test_what_is_not_formed_as_a_plan(self, content: Callable[[], bytes]) -> None:
        """Even with a digest that fits: it is said once, and never a traceback."""
        with pytest.raises(PlanUnreadable, match="zonectl"):
            read_plan(content())

    @pytest.mark.parametrize(
        ("content", "member"),
        [
            pytest.param(lambda: forged(summary={"update": 99}), "summary", id="another summary"),
            pytest.param(lambda: forged(approved="yes"), "approved", id="a member of its own"),
            pytest.param(lambda: forged(shown_once=[]), "shown_once", id="no word of a new secret"),
            pytest.param(lambda: forged(widened=[]), "widened", id="an empty list in place of none"),
            pytest.param(lambda: of_action(note="harmless"), "actions", id="a note on an action"),
            pytest.param(lambda: of_action(protected=False), "actions", id="a default said in full"),
            pytest.param(lambda: forged(tool={"name": "other", "version": "test"}), "tool", id="other tool"),
        ],
    )
    def test_what_zonectl_would_not_write(self, content: Callable[[], bytes], member: str) -> None:
        """What follows from the rest has to follow, and there is nothing besides; the member is named."""
        if member == "widened":
            plain = replace(EVERYTHING, widened=(), _digest=[]).as_json()
            made = {name: value for name, value in plain.items() if name != "digest"} | {"widened": []}
            text = orjson.dumps({**made, "digest": digest_of(made)})
        else:
            text = content()
        with pytest.raises(PlanUnreadable, match=f"`{member}`"):
            read_plan(text)
