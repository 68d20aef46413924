"""Refused changesets: the reconciler's fake server answers as `zoned` does.

Status, `code` and the `field` of the first detail are the same. Messages are each server's own.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.reconciler.conformance.configuration import Configuration, Refused
from tests.support.applying import adopt, api, app, create, local, on, ref, update

NOBODY = "a" * 26
FIRST = "operations[0]"
DETAILED = {"message", "code", "status", "details", "path", "request_id", "timestamp"}
Operations = Callable[[Configuration, str], list[dict[str, Any]]]


def refused(git: Configuration, *operations: dict[str, Any], **more: Any) -> Refused:
    """How an apply of these operations is refused."""
    return Refused.read(git.send(*operations, **more))


class TestOwnership:
    @pytest.mark.parametrize("op", ["update", "adopt", "delete", "release", "rename"])
    def test_what_another_owner_manages_is_a_conflict(
        self, git: Configuration, zone_id: str, op: str
    ) -> None:
        """409: whoever has it has to release it first."""
        operation = _on_agent(git, zone_id, op)

        assert refused(git.as_owner("acme/other"), operation) == Refused(409, "conflict", FIRST)

    @pytest.mark.parametrize("op", ["update", "delete", "release", "rename"])
    def test_what_nobody_manages_is_a_conflict(self, git: Configuration, zone_id: str, op: str) -> None:
        """409: it has to be adopted first."""
        git.apply(_on_agent(git, zone_id, "release"))

        assert refused(git, _on_agent(git, zone_id, op)) == Refused(409, "conflict", FIRST)

    @pytest.mark.parametrize(
        ("op", "expected"),
        [
            ("adopt", Refused(403, "forbidden", FIRST)),
            ("update", Refused(409, "conflict", FIRST)),
            ("delete", Refused(409, "conflict", FIRST)),
        ],
    )
    def test_what_the_platform_has_belongs_to_no_configuration(
        self, git: Configuration, zone_id: str, op: str, expected: Refused
    ) -> None:
        """Adopting it is forbidden; all else is refused as for what nobody manages."""
        role = next(
            line["id"]
            for line in git.lines()
            if (line.get("kind"), line.get("handle")) == ("Role", "zone_viewer")
            and line["zone_id"] == zone_id
        )

        assert refused(git, _operation(op, "Role", role, zone_id)) == expected

    def test_what_lends_nothing_is_adopted_by_a_bound_credential(
        self, git: Configuration, zone_id: str
    ) -> None:
        """An application of nobody's without dependencies is there for the taking."""
        git.apply(_on_agent(git, zone_id, "release"))
        agent = git.id("Application", "agent")

        taken = git.as_owner("acme/team").bound().send(adopt("Application", agent, "agent", zone_id))

        assert taken.status_code == 200, taken.text

    @pytest.mark.parametrize("kind", ["Application", "Resource"])
    def test_what_another_configuration_lends_is_not_adopted(
        self, git: Configuration, zone_id: str, kind: str
    ) -> None:
        """403: neither an application that depends on stored credentials, nor a resource of their provider.

        A credential that is bound to no owner adopts both.
        """
        provider = {"identifier": "https://outside.test", "name": "Outside"}
        lending = {"credential_provider_id": ref("Provider", "outside")}
        git.apply(
            create("Provider", "outside", zone_id, **provider),
            api("vault", zone_id, **lending),
            api("drifting", zone_id, **lending),
            app("drifter", zone_id, dependencies=[ref("Resource", "vault")]),
        )
        name = {"Application": "drifter", "Resource": "drifting"}[kind]
        entity_id = git.id(kind, name)
        git.apply(on("release", kind, entity_id, zone={"id": zone_id}))
        team = git.as_owner("acme/team")
        taken = adopt(kind, entity_id, name, zone_id)
        assert team.send(taken, dry_run=True).status_code == 200

        assert refused(team.bound(), taken) == Refused(403, "forbidden", FIRST)

    def test_what_is_protected_is_not_deleted(self, git: Configuration, zone_id: str) -> None:
        """409, until `protect: false` is applied."""
        git.apply({**app("safe", zone_id), "protect": True})
        safe = git.id("Application", "safe")

        assert refused(git, on("delete", "Application", safe, zone={"id": zone_id})) == Refused(
            409, "conflict", FIRST
        )

    def test_a_zone_with_something_protected_in_it_is_not_deleted(
        self, git: Configuration, zone_id: str
    ) -> None:
        """409: it would go along."""
        git.apply({**app("safe", zone_id), "protect": True})

        assert refused(git, on("delete", "Zone", zone_id)) == Refused(409, "conflict", FIRST)


class TestConflicts:
    @pytest.mark.parametrize("dry_run", [True, False])
    def test_a_taken_handle_is_a_conflict(self, git: Configuration, zone_id: str, *, dry_run: bool) -> None:
        """409 at the member; on a dry run, too."""
        taken = create("Application", "two", zone_id, name="Two", identifier="agent")

        assert refused(git, taken, dry_run=dry_run) == Refused(409, "conflict", f"{FIRST}.spec.identifier")

    def test_a_taken_name_is_a_conflict_for_a_creation(self, git: Configuration, zone_id: str) -> None:
        """A configuration calls two objects of a kind differently."""
        taken = create("Application", "agent", zone_id, name="Two", identifier="two")

        assert refused(git, taken) == Refused(409, "conflict", FIRST)

    def test_a_taken_name_is_a_conflict_for_a_rename(self, git: Configuration, zone_id: str) -> None:
        """As for a creation."""
        git.apply(app("two", zone_id))
        rename = on("rename", "Application", git.id("Application", "two"), name="agent", zone={"id": zone_id})

        assert refused(git, rename) == Refused(409, "conflict", FIRST)


class TestStaleBase:
    """412, with the operation that is about what has changed."""

    def test_an_object_written_since_is_stale(self, git: Configuration, zone_id: str) -> None:
        """By anybody."""
        base, agent = git.revision, git.id("Application", "agent")
        git.hand.update("Application", zone_id, agent, description="By hand")

        assert refused(git, _on_agent(git, zone_id, "update"), base=base) == _stale(FIRST)

    def test_an_object_made_since_under_the_same_handle_is_stale(
        self, git: Configuration, zone_id: str
    ) -> None:
        """Whoever planned to create it has not seen it."""
        base = git.revision
        git.hand.create("Application", zone_id, name="Two", identifier="two")

        assert refused(git, app("two", zone_id), base=base) == _stale(FIRST)

    def test_another_apply_of_the_same_owner_is_stale(self, git: Configuration, zone_id: str) -> None:
        """Whatever it was about."""
        base = git.revision
        git.apply(app("two", zone_id))

        assert refused(git, app("three", zone_id), base=base) == _stale("base_revision")

    def test_a_revision_that_is_yet_to_come_is_stale(self, git: Configuration, zone_id: str) -> None:
        """Nobody can have planned from it; no member is wrong."""
        assert refused(git, app("two", zone_id), base=git.revision + 1000) == _stale("")

    def test_a_replay_as_a_dry_run_is_stale(self, git: Configuration, zone_id: str) -> None:
        """A dry run of what was applied finds it there."""
        body = git.body(app("two", zone_id))
        git.post(body)

        assert Refused.read(git.post(body, dry_run=True)) == _stale(FIRST)

    def test_what_others_wrote_elsewhere_is_not(self, git: Configuration, zone_id: str) -> None:
        """The base of a changeset is about what it touches."""
        base, agent = git.revision, git.id("Application", "agent")
        git.hand.update("Application", zone_id, agent, description="By hand")

        assert git.send(app("two", zone_id), base=base).status_code == 200


class TestMissing:
    """404 and 400: what an operation names is not there."""

    @pytest.mark.parametrize("op", ["update", "adopt", "delete", "release", "rename"])
    def test_an_unknown_id_is_not_found(self, git: Configuration, zone_id: str, op: str) -> None:
        """Whatever is to be done with it."""
        operation = _operation(op, "Application", NOBODY, zone_id)

        assert refused(git, operation) == Refused(404, "not_found", FIRST)

    def test_an_id_of_another_kind_is_not_found(self, git: Configuration, zone_id: str) -> None:
        """An application is no group."""
        operation = update("Group", git.id("Application", "agent"), "agent", zone_id, name="X")

        assert refused(git, operation) == Refused(404, "not_found", FIRST)

    def test_what_others_have_deleted_is_not_found(self, git: Configuration, zone_id: str) -> None:
        """The tombstone tells of it."""
        operation = _on_agent(git, zone_id, "delete")
        git.hand.delete("Application", zone_id, operation["id"])

        assert refused(git, operation) == Refused(404, "not_found", FIRST)

    def test_an_unknown_zone_is_not_found(self, git: Configuration) -> None:
        """To create something in."""
        assert refused(git, app("two", NOBODY)) == Refused(404, "not_found", FIRST)

    def test_a_local_id_that_nothing_creates_is_wrong(self, git: Configuration, zone_id: str) -> None:
        """Operations refer to what earlier ones create."""
        spec = {"type": "public", "identifier": "k", "application_id": ref("Application", "later")}

        assert refused(git, create("ApplicationCredential", "k", zone_id, **spec)) == Refused(
            400, "validation_error", f"{FIRST}.spec.application_id"
        )

    def test_an_external_handle_that_nothing_has_is_wrong(self, git: Configuration, zone_id: str) -> None:
        """In the zone of the operation."""
        spec = {
            "role_id": {"external": "nobody", "kind": "Role"},
            "principal": {"application_id": git.id("Application", "agent")},
        }
        assignment = create("RoleAssignment", "a", zone_id, **spec)

        assert refused(git, {**assignment, "fields": ["role_id"]}) == Refused(
            400, "validation_error", f"{FIRST}.spec.role_id"
        )

    def test_a_name_in_a_policy_that_nothing_has_is_wrong(self, git: Configuration, zone_id: str) -> None:
        """The rule would match nobody."""
        text = 'forbid(principal in Group::"nobody", action, resource);'

        assert refused(git, create("Policy", "p", zone_id, name="p", cedar=text)) == Refused(
            400, "validation_error", f"{FIRST}.spec.cedar"
        )

    def test_the_operations_before_a_refused_one_are_undone(self, git: Configuration, zone_id: str) -> None:
        """A changeset happens wholly or not at all."""
        missing = _operation("update", "Application", NOBODY, zone_id)

        assert refused(git, app("two", zone_id), missing).field == "operations[1]"
        assert git.find("Application", "two") is None


MALFORMED: dict[str, tuple[Operations, str]] = {
    "unknown kind": (lambda _, z: [{**app("two", z), "kind": "Nothing"}], ".kind"),
    "unknown operation": (lambda _, z: [{**app("two", z), "op": "explode"}], ".op"),
    "unknown member": (lambda _, z: [app("two", z, colour="red")], ".spec.colour"),
    "missing member": (lambda _, z: [create("Application", "two", z, identifier="two")], ".spec.name"),
    "member of another type": (lambda _, z: [app("two", z, description=7)], ".spec.description"),
    "empty name": (lambda _, z: [{**app("two", z), "name": ""}], ".name"),
    "no zone": (lambda _, z: [{k: v for k, v in app("two", z).items() if k != "zone"}], ""),
}
ENVELOPES: dict[str, tuple[dict[str, Any], str]] = {
    "no operations": ({"operations": []}, "operations"),
    "base revision that is no number": ({"base_revision": "one"}, "base_revision"),
    "no owner": ({"owner": None}, "owner"),
    "unknown member": ({"surprise": 1}, "surprise"),
}


class TestMalformed:
    @pytest.mark.parametrize("what", MALFORMED)
    def test_an_operation_is_refused_at_its_member(self, git: Configuration, zone_id: str, what: str) -> None:
        """400 with the place, before anything is done."""
        operations, member = MALFORMED[what]

        assert refused(git, *operations(git, zone_id)) == Refused(400, "validation_error", FIRST + member)

    def test_a_local_id_given_twice_is_refused(self, git: Configuration, zone_id: str) -> None:
        """References to it would be ambiguous."""
        again = {**app("three", zone_id), "local_id": local("Application", "two")}

        assert refused(git, app("two", zone_id), again) == Refused(400, "validation_error", "operations[1]")

    def test_a_placeholder_of_a_secret_is_refused_when_applied(
        self, git: Configuration, zone_id: str
    ) -> None:
        """Only a dry run goes without the secret."""
        secret: dict[str, Any] = {"client_id": "c", "client_secret": {"secret": True}}
        identifier = f"https://{git.zone}.example"
        provider = create("Provider", "idp", zone_id, name="IdP", identifier=identifier, **secret)

        assert refused(git, provider) == Refused(400, "validation_error", f"{FIRST}.spec.client_secret")

    @pytest.mark.parametrize("what", ENVELOPES)
    def test_an_envelope_is_refused_at_its_member(self, git: Configuration, zone_id: str, what: str) -> None:
        """400 with the name of the member."""
        changed, member = ENVELOPES[what]
        answer = git.post({**git.body(app("two", zone_id)), **changed})

        assert Refused.read(answer) == Refused(400, "validation_error", member)
        assert answer.json().keys() == DETAILED

    def test_a_body_that_is_not_json_is_a_bad_request(self, git: Configuration) -> None:
        """400, and nothing to point at."""
        assert Refused.read(git.post(b"{", key="any")) == Refused(400, "bad_request")

    def test_a_body_that_is_no_object_is_refused(self, git: Configuration) -> None:
        """400, and nothing to point at."""
        assert Refused.read(git.post([], key="any")) == Refused(400, "validation_error")


def _stale(field: str) -> Refused:
    return Refused(412, "precondition_failed", field)


def _on_agent(git: Configuration, zone_id: str, op: str) -> dict[str, Any]:
    return _operation(op, "Application", git.id("Application", "agent"), zone_id)


def _operation(op: str, kind: str, entity_id: str, zone_id: str) -> dict[str, Any]:
    """An operation of any sort on what is there."""
    if op in ("update", "adopt"):
        make = update if op == "update" else adopt
        return make(kind, entity_id, "renamed", zone_id, description="Changed")
    named = {"name": "renamed"} if op == "rename" else {}
    return on(op, kind, entity_id, zone={"id": zone_id}, **named)
