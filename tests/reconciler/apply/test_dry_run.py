"""Dry runs: the request, and the reading of the server's answer."""

from typing import Any

import pytest
from tests.reconciler.plan.values import action, plan

from reconciler.apply.dry_run import dry_run_plan
from reconciler.client import Rejected
from reconciler.plan import Cascade
from reconciler.plan.model import Op


class Server:
    """Answers a dry run with results of operations, or refuses it; keeps the body."""

    def __init__(self, *results: dict[str, Any], refusal: Rejected | None = None) -> None:
        self.results, self.refusal = results, refusal
        self.sent: dict[str, Any] = {}
        self.body = {"operations": list(results)}

    def dry_run(self, body: dict[str, Any], progress: object) -> "Server":
        """As the client's."""
        self.sent = body
        if self.refusal is not None:
            raise self.refusal
        return self


def run(server: Server, *operations: Any) -> Any:
    """What a dry run of these operations came to."""
    api: Any = server
    return dry_run_plan(api, plan(action(Op.DELETE), operations=operations))


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


def test_a_refusal_of_the_plan_is_an_answer() -> None:
    """Nothing is counted then."""
    answer = run(Server(refusal=Rejected(422, "validation_error", "no")))
    assert (answer.rejection is None, answer.cascades) == (False, None)


def test_a_refusal_of_the_caller_is_raised() -> None:
    """The plan may be right."""
    with pytest.raises(Rejected):
        run(Server(refusal=Rejected(403, "forbidden", "no")))
