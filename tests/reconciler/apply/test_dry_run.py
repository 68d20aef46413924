"""Dry runs: the request, and the reading of the server's answer."""

from typing import Any

import pytest
from tests.reconciler.plan.values import action, decision_impact, plan

from reconciler.apply.dry_run import dry_run_plan
from reconciler.client import NotReached, Rejected
from reconciler.plan import Cascade
from reconciler.plan.model import Op


class Server:
    """Answers a dry run with results of operations, or refuses it; keeps the body."""

    def __init__(self, *results: dict[str, Any], refusal: Rejected | None = None) -> None:
        self.results, self.refusal = results, refusal
        self.sent: dict[str, Any] = {}
        self.body: dict[str, Any] = {"operations": list(results)}

    def dry_run(self, body: dict[str, Any], progress: object) -> "Server":
        """As the client's."""
        self.sent = body
        if self.refusal is not None:
            raise self.refusal
        return self


def run(server: Server, *operations: Any) -> Any:
    """What a dry run of these operations came to."""
    api: Any = server
    return dry_run_plan(api, plan(action(Op.DELETE), operations=operations, zone_names={"z1": "acme"}))


def answering(impact: Any) -> Server:
    """A server that answers this about decisions."""
    server = Server()
    server.body["decision_impact"] = impact
    return server


def test_a_reference_to_a_secret_is_sent_as_a_marker() -> None:
    """The server checks that there is one; its reference stays on this machine."""
    server, reference = Server(), {"secret": {"from_env": "OKTA"}}
    run(server, {"op": "create", "local_id": "x", "kind": "Provider", "spec": {"client_secret": reference}})
    assert server.sent["operations"][0]["spec"] == {"client_secret": {"secret": True}}


def test_an_operation_without_a_spec_is_sent_as_it_is() -> None:
    """A deletion has none."""
    server, deletion = Server(), {"op": "delete", "kind": "Group", "id": "g1"}
    run(server, deletion)
    assert server.sent["operations"] == [deletion]


def test_each_deletion_has_what_it_takes_along() -> None:
    """By kind and id, as the server counts it."""
    result = {"op": "delete", "kind": "Zone", "id": "z1", "takes_along": {"User": 3}, "in_use": True}
    assert run(Server(result)).cascades == {("Zone", "z1"): Cascade({"User": 3}, in_use=True)}


def test_a_deletion_of_which_nothing_is_said_takes_nothing_along() -> None:
    """And is not in use."""
    answer = run(Server({"op": "delete", "kind": "Group", "id": "g1"}))
    assert answer.cascades == {("Group", "g1"): Cascade({}, in_use=False)}


def test_other_operations_have_no_cascades() -> None:
    """Only what is deleted takes something along."""
    assert run(Server({"op": "update", "kind": "Group", "id": "g1"})).cascades == {}


def test_decisions_that_change_are_told_with_the_name_of_their_zone() -> None:
    """One element for each zone, in the order of the answer."""
    found = run(answering([decision_impact(), decision_impact(zone_id="z2")])).decision_impact
    assert [(each.zone, each.loses.decisions) for each in found] == [("acme", 42), ("z2", 42)]


@pytest.mark.parametrize("server", [Server(), answering(None)], ids=["absent", "null"])
def test_a_server_that_tells_nothing_of_decisions_has_not_looked(server: Server) -> None:
    """Which is another thing than that none changes."""
    assert run(server).decision_impact is None
    assert run(answering([])).decision_impact == ()


@pytest.mark.parametrize("impact", [7, [7], [{}], [decision_impact(recorded="many")]], ids=str)
def test_decisions_that_cannot_be_read_are_an_error(impact: Any) -> None:
    """The plan would seem to change none."""
    with pytest.raises(NotReached, match="`decision_impact` of the server's answer cannot be read"):
        run(answering(impact))


def test_a_refusal_of_the_plan_is_an_answer() -> None:
    """Nothing is counted then."""
    answer = run(Server(refusal=Rejected(422, "validation_error", "no")))
    assert (answer.rejection is None, answer.cascades, answer.decision_impact) == (False, None, None)


def test_a_refusal_of_the_caller_is_raised() -> None:
    """The plan may be right."""
    with pytest.raises(Rejected):
        run(Server(refusal=Rejected(403, "forbidden", "no")))
