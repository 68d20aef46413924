"""Changesets that are accepted: the fake server of the reconciler's tests answers as `zoned` does."""

import json
from typing import Any

import pytest
from tests.reconciler.conformance.configuration import NDJSON, Configuration, Refused
from tests.support.applying import adopt, api, app, create, on, ref, update

RESULT = {"index", "op", "kind", "id", "name", "status"}
ANSWER = {"id", "base_revision", "revision", "dry_run", "operations", "audit"}


def credential(git: Configuration, name: str, zone_id: str, **more: Any) -> dict[str, Any]:
    """A password for the agent: the server makes it and shows it once."""
    identifier = f"{name}-{git.zone}"
    agent = git.id("Application", "agent")
    spec = {"type": "password", "identifier": identifier, "application_id": agent}
    return create("ApplicationCredential", name, zone_id, **spec, **more)


def agents(git: Configuration, op: str, **more: Any) -> dict[str, Any]:
    """An operation on the agent."""
    return on(op, "Application", git.id("Application", "agent"), **more)


class TestAnswers:
    def test_an_apply_answers_with_its_receipt(self, git: Configuration, zone_id: str) -> None:
        """Its id, the revision that it made, and the audit records."""
        base = git.revision
        answer = git.apply(app("two", zone_id))

        assert answer.keys() == ANSWER
        assert answer["audit"].keys() == {"first", "last"}
        assert (answer["base_revision"], answer["revision"]) == (base, base + 1)
        assert (answer["dry_run"], isinstance(answer["id"], str)) == (False, True)

    def test_each_operation_has_a_result_in_its_place(self, git: Configuration, zone_id: str) -> None:
        """With the id of what was made."""
        results = git.apply(app("two", zone_id), api("payroll", zone_id))["operations"]

        assert [each.keys() for each in results] == [RESULT, RESULT]
        assert [(each["index"], each["op"], each["name"], each["status"]) for each in results] == [
            (0, "create", "two", "done"),
            (1, "create", "payroll", "done"),
        ]
        assert results[0]["id"] == git.id("Application", "two")

    @pytest.mark.parametrize("op", ["delete", "release"])
    def test_an_operation_without_a_name_has_a_result_without_one(
        self, git: Configuration, zone_id: str, op: str
    ) -> None:
        """The member is left out."""
        (result,) = git.apply(agents(git, op, zone={"id": zone_id}))["operations"]

        assert result.keys() == RESULT - {"name"}

    def test_lines_tell_of_progress_and_end_with_the_result(self, git: Configuration, zone_id: str) -> None:
        """Where the caller accepts NDJSON."""
        answer = git.post(git.body(app("two", zone_id)), accept=NDJSON)
        *progress, last = [json.loads(line) for line in answer.content.splitlines()]

        assert (answer.status_code, answer.headers["Content-Type"]) == (200, NDJSON)
        assert progress[-1] == {"type": "progress", "done": 1, "total": 1}
        assert (last["type"], last.keys()) == ("result", {"type", *ANSWER})

    def test_a_refusal_is_the_one_line_and_keeps_its_status(self, git: Configuration, zone_id: str) -> None:
        """Where the caller accepts NDJSON, and nothing was sent before."""
        answer = git.post(git.body(app("agent", zone_id)), accept=NDJSON)
        (line,) = [json.loads(line) for line in answer.content.splitlines()]

        assert (answer.status_code, answer.headers["Content-Type"]) == (409, NDJSON)
        assert (line["type"], line["code"]) == ("error", "conflict")


class TestDryRun:
    def test_it_answers_as_an_apply_would(self, git: Configuration, zone_id: str) -> None:
        """With neither an id nor audit records: there is no receipt."""
        base = git.revision
        answer = git.dry_run(app("two", zone_id))

        assert answer.keys() == ANSWER - {"audit"}
        assert (answer["id"], answer["dry_run"], answer["revision"]) == (None, True, base + 1)

    def test_nothing_is_written(self, git: Configuration, zone_id: str) -> None:
        """Neither the object nor a revision."""
        base = git.revision
        git.dry_run(app("two", zone_id))

        assert (git.find("Application", "two"), git.revision) == (None, base)

    def test_a_secret_may_be_a_placeholder(self, git: Configuration, zone_id: str) -> None:
        """Plans are made where no secrets are."""
        identifier = f"https://{git.zone}.example"
        secret: dict[str, Any] = {"client_id": "c", "client_secret": {"secret": True}}
        provider = create("Provider", "idp", zone_id, name="IdP", identifier=identifier, **secret)

        assert git.dry_run(provider)["operations"][0]["status"] == "done"

    def test_a_deletion_says_what_goes_with_it(self, git: Configuration, zone_id: str) -> None:
        """The agent's credential, which nobody has used."""
        git.apply(credential(git, "key", zone_id))
        (result,) = git.dry_run(agents(git, "delete", zone={"id": zone_id}))["operations"]

        assert (result["takes_along"], result["in_use"]) == ({"application_credentials": 1}, False)

    def test_every_refusal_is_told_at_once(self, git: Configuration, zone_id: str) -> None:
        """An apply stops at the first."""
        missing = [update("Application", letter * 26, "x", zone_id, name="X") for letter in "ab"]
        answer = git.send(*missing, dry_run=True)

        fields = [each["field"] for each in answer.json()["details"]]
        assert (answer.status_code, fields) == (404, ["operations[0]", "operations[1]"])


class TestReplay:
    def test_a_plan_sent_again_is_answered_with_the_first_result(
        self, git: Configuration, zone_id: str
    ) -> None:
        """And `Idempotent-Replay: true`; nothing happens twice."""
        body = git.body(app("two", zone_id))
        first = git.post(body)
        again = git.post(body)

        assert (again.status_code, again.json()) == (200, first.json())
        assert first.headers.get("Idempotent-Replay") is None
        assert again.headers["Idempotent-Replay"] == "true"

    def test_the_plan_digest_is_enough(self, git: Configuration, zone_id: str) -> None:
        """Without `Idempotency-Key`."""
        body = git.body(app("two", zone_id))
        git.post(body, key="")

        assert git.post(body, key="").headers["Idempotent-Replay"] == "true"

    def test_another_body_under_the_same_digest_is_refused(self, git: Configuration, zone_id: str) -> None:
        """It would be taken for the first."""
        body = git.body(app("two", zone_id))
        git.post(body)
        other = git.post({**body, "operations": [app("three", zone_id)]})

        assert Refused.read(other) == Refused(409, "conflict", "plan_digest")

    def test_a_key_that_is_not_the_plan_digest_is_refused(self, git: Configuration, zone_id: str) -> None:
        """There is one name for a plan."""
        answer = git.post(git.body(app("two", zone_id)), key="another")

        assert Refused.read(answer) == Refused(400, "validation_error", "Idempotency-Key")

    def test_what_was_shown_once_is_not_shown_again(self, git: Configuration, zone_id: str) -> None:
        """The first answer has the password, the replay has not."""
        body = git.body(credential(git, "key", zone_id))
        first, again = (git.post(body).json()["operations"][0] for _ in range(2))

        assert first["shown_once"].keys() == {"password"}
        assert again == {name: value for name, value in first.items() if name != "shown_once"}


class TestOwnership:
    def test_adopting_gives_an_object_an_owner(self, git: Configuration, zone_id: str) -> None:
        """One that nobody manages."""
        by_hand = git.hand.create("Application", zone_id, name="Hand", identifier="hand")
        git.apply(adopt("Application", by_hand, "hand", zone_id, name="Hand"))
        record = git.entity("Application", "hand")["ownership"]

        assert (record["owner"], record["name"], record["fields"]) == (git.owner, "hand", ["name"])

    def test_adopting_again_changes_the_record(self, git: Configuration, zone_id: str) -> None:
        """An owner may say it twice."""
        agent = git.id("Application", "agent")
        git.apply(adopt("Application", agent, "agent", zone_id, description="An agent"))

        assert git.entity("Application", "agent")["ownership"]["fields"] == ["description"]

    def test_releasing_leaves_the_object_without_an_owner(self, git: Configuration, zone_id: str) -> None:
        """As it is."""
        git.apply(agents(git, "release", zone={"id": zone_id}))
        line = git.entity("Application", "agent")

        assert (line["ownership"], line["spec"]["name"]) == (None, "Agent")

    def test_what_was_released_may_be_adopted_by_another_owner(
        self, git: Configuration, zone_id: str
    ) -> None:
        """This is how an object is handed over."""
        agent = git.id("Application", "agent")
        git.apply(on("release", "Application", agent, zone={"id": zone_id}))
        git.as_owner("acme/other").apply(adopt("Application", agent, "agent", zone_id, name="Agent"))

        assert git.entity("Application", "agent")["ownership"]["owner"] == "acme/other"

    def test_renaming_changes_the_name_in_git_alone(self, git: Configuration, zone_id: str) -> None:
        """Its handle stays."""
        git.apply(agents(git, "rename", name="assistant", zone={"id": zone_id}))
        line = git.entity("Application", "assistant")

        assert (line["ownership"]["name"], line["handle"]) == ("assistant", "agent")

    def test_names_may_be_exchanged(self, git: Configuration, zone_id: str) -> None:
        """They are unique when a changeset ends."""
        git.apply(app("two", zone_id))
        agent, two = git.id("Application", "agent"), git.id("Application", "two")
        within = {"zone": {"id": zone_id}}
        git.apply(
            on("rename", "Application", agent, name="two", **within),
            on("rename", "Application", two, name="agent", **within),
        )

        names = {
            each["id"]: each["ownership"]["name"] for each in git.lines() if each.get("id") in (agent, two)
        }

        assert names == {agent: "two", two: "agent"}

    def test_handles_may_be_exchanged(self, git: Configuration, zone_id: str) -> None:
        """They are unique when a changeset ends."""
        git.apply(app("two", zone_id))
        agent, two = git.id("Application", "agent"), git.id("Application", "two")
        git.apply(
            update("Application", agent, "agent", zone_id, identifier="two"),
            update("Application", two, "two", zone_id, identifier="agent"),
        )
        handles = {each["id"]: each["handle"] for each in git.lines() if each.get("id") in (agent, two)}

        assert handles == {agent: "two", two: "agent"}

    def test_null_sets_a_member_to_its_default(self, git: Configuration, zone_id: str) -> None:
        """As a merge patch does. Spec: RFC 7396."""
        agent = git.id("Application", "agent")
        git.apply(update("Application", agent, "agent", zone_id, description="An agent"))
        git.apply(update("Application", agent, "agent", zone_id, description=None))

        assert "description" not in git.entity("Application", "agent")["spec"]

    def test_a_deletion_takes_along_what_cannot_be_without(self, git: Configuration, zone_id: str) -> None:
        """The credential of an application."""
        git.apply(credential(git, "key", zone_id))
        git.apply(agents(git, "delete", zone={"id": zone_id}))

        assert git.find("ApplicationCredential", "key") is None


class TestReferences:
    def test_an_operation_may_refer_to_what_an_earlier_one_creates(
        self, git: Configuration, zone_id: str
    ) -> None:
        """By its local id."""
        git.apply(
            app("two", zone_id),
            create(
                "ApplicationCredential",
                "public",
                zone_id,
                type="public",
                identifier=f"public-{git.zone}",
                application_id=ref("Application", "two"),
            ),
        )

        spec = git.entity("ApplicationCredential", "public")["spec"]
        assert spec["application_id"] == git.id("Application", "two")

    def test_what_a_zone_is_born_with_is_referred_to_by_its_handle(
        self, git: Configuration, zone_id: str
    ) -> None:
        """`external`: it has no id yet where the zone is new."""
        spec = {
            "role_id": {"external": "zone_viewer", "kind": "Role"},
            "principal": {"group_id": ref("Group", "staff")},
        }
        assignment = create("RoleAssignment", "staff-view", zone_id, **spec)
        git.apply(
            create("Group", "staff", zone_id, name="Staff", identifier="staff"),
            {**assignment, "fields": ["role_id", "principal.group_id"]},
        )

        assert git.entity("RoleAssignment", "staff-view")["spec"]["principal"] == {
            "group_id": git.id("Group", "staff")
        }

    def test_an_address_of_a_zone_is_filled_in(self, git: Configuration, zone_id: str) -> None:
        """`address_of`: nobody knows it before the zone is there."""
        address = {"address_of": {"id": zone_id}, "member": "issuer"}
        provider = create("Provider", "self", zone_id, name="Self", identifier=address, client_id="c")
        git.apply({**provider, "fields": ["name", "identifier", "client_id"]})

        issuer = git.entity("Zone", git.zone)["spec"]["addresses"]["issuer"]
        assert git.entity("Provider", "self")["spec"]["identifier"] == issuer


class TestShownOnce:
    def test_what_shows_a_secret_is_undelivered(self, git: Configuration, zone_id: str) -> None:
        """Until somebody says that it has arrived."""
        git.apply(credential(git, "key", zone_id))

        assert git.entity("ApplicationCredential", "key")["ownership"]["undelivered"] is True

    @pytest.mark.parametrize("base", [None, 1])
    def test_a_delivered_secret_is_not_pending_any_more(
        self, git: Configuration, zone_id: str, base: int | None
    ) -> None:
        """Over any base: it is true whatever else was written."""
        git.apply(credential(git, "key", zone_id))
        key = git.id("ApplicationCredential", "key")
        git.apply(on("delivered", "ApplicationCredential", key), **({"base": base} if base else {}))

        assert git.entity("ApplicationCredential", "key")["ownership"]["undelivered"] is False

    def test_a_secret_that_others_overwrite_is_told(self, git: Configuration, zone_id: str) -> None:
        """`secrets_overwritten`: drift that no value shows."""
        identifier = f"https://{git.zone}.example"
        secret = {"client_id": "c", "client_secret": "hush!hush"}
        provider = create("Provider", "idp", zone_id, name="IdP", identifier=identifier, **secret)
        git.apply({**provider, "secret_versions": {"client_secret": "1"}})
        git.hand.update("Provider", zone_id, git.id("Provider", "idp"), client_secret="other!other")

        assert git.entity("Provider", "idp")["secrets_overwritten"] == ["client_secret"]
