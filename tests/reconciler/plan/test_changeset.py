"""Operations of a changeset: references to existing objects only, exact merge patches, ownership records."""

from dataclasses import replace
from typing import Any

import pytest
from tests.reconciler.factories import manifest
from tests.reconciler.plan.values import ZONE_ID, entity, record

from reconciler.kinds import Entity, Origin, load_kinds
from reconciler.plan import FieldChange
from reconciler.plan.changeset import ChangesetBuilder, local_ids, nest, patch, unlink, zone_pointer_of
from reconciler.plan.matching import Match
from reconciler.plan.model import ChangeState
from reconciler.plan.three_way_diff import PROTECT

KINDS = load_kinds().by_name
ZONE = {"id": ZONE_ID}
AGENT, PAYROLL = {"local_id": "Application/workforce/agent"}, {"local_id": "Resource/workforce/payroll"}


def match(kind: str, name: str, found: Entity | None = None, **members: Any) -> Match:
    """What is wanted of a manifest, resolved."""
    lifecycle = members.pop("lifecycle", None)
    made = Match(manifest(kind, name, lifecycle=lifecycle), found)
    made.wanted, made.secrets = members.pop("wanted", {}), members.pop("secrets", {})
    return made


def created(*matches: Match) -> list[Any]:
    """The operations that create these, in this order."""
    builder = ChangesetBuilder()
    for each in matches:
        builder.create(each, ZONE)
    return list(builder.in_order())


def pending(**values: Any) -> list[FieldChange]:
    """Members that git changes."""
    return [FieldChange(path, "before", value, ChangeState.PENDING) for path, value in values.items()]


class TestCreating:
    def test_says_all_that_the_server_needs(self) -> None:
        """The changeset's own name, the zone, the values, and the record."""
        made = match("Group", "staff", wanted={"name": "Staff", "members": ["a@x.example"]})
        assert created(made) == [
            {
                "op": "create",
                "kind": "Group",
                "local_id": "Group/workforce/staff",
                "name": "staff",
                "zone": ZONE,
                "spec": {"name": "Staff", "members": ["a@x.example"]},
                "fields": ["members", "name"],
                "secret_versions": {},
                "protect": False,
                "source": {"file": "Group.yaml", "line": 1},
            }
        ]

    @pytest.mark.parametrize("change", ["create", "update", "rename"])
    def test_where_the_manifest_is_goes_along(self, change: str) -> None:
        """Each operation that writes an ownership record says it, also the second one of a creation."""
        builder, place = ChangesetBuilder(), Origin("teams/a.yaml", 14)
        found = None if change == "create" else entity("Group", "g1", {"name": "A"}, owned=record("g"))
        made = match("Group", "g", found, wanted={"name": "G", "members": AGENT})
        made.manifest = replace(made.manifest, origin=place)
        if change == "rename":
            builder.rename(made)
        elif change == "update":
            builder.change("update", made, ZONE, pending(name="G", members=AGENT))
        else:
            builder.create(made, ZONE)
        told = [each.get("source") for each in builder.in_order()]
        assert told == [{"file": "teams/a.yaml", "line": 14}] * (1 if change == "rename" else 2)

    def test_what_is_in_no_zone_names_none(self) -> None:
        """The organization is whose key it is."""
        builder = ChangesetBuilder()
        builder.create(match("ServiceAccount", "ci"), None)
        assert "zone" not in builder.in_order()[0]

    def test_what_refers_to_something_later_is_written_afterwards(self) -> None:
        """Two new ones may refer to each other: the second reference waits for an update."""
        agent = match("Application", "agent", wanted={"name": "A", "dependencies": [PAYROLL]})
        payroll = match("Resource", "payroll", wanted={"name": "P", "application_id": AGENT})
        first, second, late = created(agent, payroll)
        assert (first["spec"], first["fields"]) == ({"name": "A"}, ["name"])
        assert second["spec"] == {"name": "P", "application_id": AGENT}
        assert (late["op"], late["local_id"]) == ("update", "Application/workforce/agent")
        assert (late["spec"], late["fields"]) == ({"dependencies": [PAYROLL]}, ["dependencies", "name"])

    def test_what_refers_to_itself_waits_too(self) -> None:
        """It has no id before it is there."""
        first, late = created(match("Application", "agent", wanted={"name": "A", "dependencies": [AGENT]}))
        assert (first["spec"], late["spec"]) == ({"name": "A"}, {"dependencies": [AGENT]})

    def test_an_address_of_a_zone_that_is_not_there_waits(self) -> None:
        """The server fills it in, once it knows."""
        address = {"address_of": {"local_id": "Zone//w"}, "member": "issuer"}
        made = match("Provider", "corp", wanted={"name": "C", "identifier": address})
        first, late = created(made)
        assert (first["spec"], late["spec"]) == ({"name": "C"}, {"identifier": address})

    def test_null_is_the_default_of_what_is_new(self) -> None:
        """It is git's all the same."""
        (made,) = created(match("Group", "g", wanted={"name": "G", "members": None}))
        assert (made["spec"], made["fields"]) == ({"name": "G"}, ["members", "name"])

    def test_what_is_ignored_is_given_once_and_not_gits(self) -> None:
        """With everything in it."""
        wanted = {"name": "G", "protocols.oauth2.issuer": "https://a"}
        (made,) = created(match("Provider", "p", wanted=wanted, lifecycle={"ignore": ["protocols"]}))
        assert made["spec"]["protocols"] == {"oauth2": {"issuer": "https://a"}}
        assert made["fields"] == ["name"]

    @pytest.mark.parametrize("protect", [True, False])
    def test_protection_is_said(self, protect: bool) -> None:
        """As the manifest has it."""
        (made,) = created(match("Group", "g", lifecycle={"protect": protect}))
        assert made["protect"] is protect

    def test_a_secret_stands_as_its_reference(self) -> None:
        """With the version that is told next time; one that is kept is not written."""
        secrets = {"client_secret": {"from_env": "X", "version": "3"}, "other": {"keep": True}}
        (made,) = created(match("Provider", "p", wanted={"name": "P"}, secrets=secrets))
        assert made["spec"] == {"name": "P", "client_secret": {"secret": {"from_env": "X", "version": "3"}}}
        assert made["secret_versions"] == {"client_secret": "3"}
        assert made["fields"] == ["client_secret", "name"]


class TestChanging:
    FOUND = entity(
        "Provider",
        "p1",
        {"name": "before", "identifier": "https://a"},
        owned=record("p", fields=["name", "client_secret", "kept"], versions={"kept": "1", "gone": "9"}),
    )

    def written(self, changes: list[FieldChange], **members: Any) -> list[Any]:
        """The operations that change it."""
        builder = ChangesetBuilder()
        builder.change("update", match("Provider", "p", self.FOUND, **members), ZONE, changes)
        return list(builder.in_order())

    def test_writes_what_git_changes(self) -> None:
        """What stays is not written, and git's in the record."""
        (update,) = self.written(pending(name="after"), wanted={"name": "after", "identifier": "https://a"})
        assert (update["op"], update["id"], update["spec"]) == ("update", "p1", {"name": "after"})
        assert update["fields"] == ["identifier", "name"]

    @pytest.mark.parametrize("state", sorted(ChangeState))
    def test_writes_no_more_than_has_to_change(self, state: ChangeState) -> None:
        """What is claimed, released or kept is as it should be."""
        (update,) = self.written([FieldChange("name", "before", "after", state)])
        changing = state in (ChangeState.PENDING, ChangeState.DRIFT, ChangeState.CONFLICT)
        assert update["spec"] == ({"name": "after"} if changing else {})

    def test_protection_is_no_value(self) -> None:
        """It stands in the record."""
        (update,) = self.written(
            [FieldChange(PROTECT, False, True, ChangeState.PENDING)], lifecycle={"protect": True}
        )
        assert (update["spec"], update["protect"]) == ({}, True)

    def test_what_would_follow_another_member_is_written_again(self) -> None:
        """A provider's issuer follows its identifier, unless it is said."""
        issuer = "protocols.oauth2.issuer"
        wanted = {"identifier": "https://b", issuer: "https://a"}
        (update,) = self.written(pending(identifier="https://b"), wanted=wanted)
        assert update["spec"]["protocols"] == {"oauth2": {"issuer": "https://a"}}

    def test_a_reference_to_what_comes_later_waits(self) -> None:
        """The rest is written at once."""
        pointer = {"local_id": "Application/workforce/new"}
        now, late = self.written(pending(name="after", metadata=pointer))
        assert (now["spec"], late["spec"]) == ({"name": "after"}, {"metadata": pointer})
        assert (now["op"], late["op"], late["fields"]) == ("update", "update", now["fields"])

    def test_what_is_adopted_is_adopted_once(self) -> None:
        """What waits follows in an update."""
        builder = ChangesetBuilder()
        found = match("Provider", "p", self.FOUND)
        builder.change("adopt", found, ZONE, pending(metadata={"local_id": "later"}))
        assert [each["op"] for each in builder.in_order()] == ["adopt", "update"]

    def test_a_kept_secret_keeps_its_version(self) -> None:
        """One that is written has its new one; what left the manifest has none."""
        secrets = {"client_secret": {"from_env": "X", "version": "4"}, "kept": {"keep": True}}
        (update,) = self.written(pending(name="after"), wanted={"name": "after"}, secrets=secrets)
        assert update["secret_versions"] == {"client_secret": "4", "kept": "1"}
        assert update["fields"] == ["client_secret", "kept", "name"]

    def test_a_kept_secret_that_was_never_gits_stays_others(self) -> None:
        """To keep it does not mean to own it."""
        (update,) = self.written([], secrets={"foreign": {"keep": True}})
        assert (update["secret_versions"], update["fields"]) == ({}, [])


class TestOrder:
    def test_deletions_come_last_unless_something_takes_their_place(self) -> None:
        """First what makes way, then what is made and changed, then what goes."""
        builder = ChangesetBuilder()
        builder.delete(entity("Group", "last"))
        builder.release(entity("Group", "released"))
        builder.delete(entity("Group", "first"), first=True)
        builder.rename(match("Group", "new", entity("Group", "renamed")))
        assert [(each["op"], each["id"]) for each in builder.in_order() if "id" in each] == [
            ("delete", "first"),
            ("release", "released"),
            ("rename", "renamed"),
            ("delete", "last"),
        ]

    @pytest.mark.parametrize(("zone_id", "pointer"), [(ZONE_ID, ZONE), (None, None)])
    def test_what_is_there_is_in_its_own_zone(self, zone_id: str | None, pointer: Any) -> None:
        """By the zone's id."""
        assert zone_pointer_of(entity("Group", "g", zone_id=zone_id)) == pointer


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("text", []),
        ({"local_id": "a"}, ["a"]),
        ([{"local_id": "a"}, "b", {"local_id": "c"}], ["a", "c"]),
        ({"address_of": {"local_id": "z"}, "member": "issuer"}, ["z"]),
        ({"address_of": {"id": "z"}, "member": "issuer"}, []),
        ({"free": {"local_id": "a"}}, []),
        (None, []),
    ],
    ids=str,
)
def test_what_a_value_waits_for(value: Any, names: list[str]) -> None:
    """Pointers in lists and in addresses; a map's own keys are its own."""
    assert list(local_ids(value)) == names


@pytest.mark.parametrize(
    ("values", "nested"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a.b": 1, "a.c.d": 2}, {"a": {"b": 1, "c": {"d": 2}}}),
        ({"a.b": {}, "e": None}, {"a": {"b": {}}, "e": None}),
        ({"a": {}, "a.b": 1}, {"a": {"b": 1}}),
    ],
    ids=str,
)
def test_dotted_paths_become_objects(values: Any, nested: Any) -> None:
    """Each value where its path leads."""
    assert nest(values) == nested


def patched(spec: dict[str, Any], values: dict[str, Any], *wanted: str, kind: str = "Provider") -> Any:
    """The patch of an entity; *wanted*: paths that git has."""
    return patch(KINDS[kind], entity(kind, "p", spec), values, dict.fromkeys(wanted, "x"))


class TestPatching:
    SPEC = {"protocols": {"oauth2": {"scope_separator": ",", "token_endpoint": "https://t"}}}
    LEFT = {"protocols.oauth2.scope_separator": None, "protocols.oauth2.token_endpoint": None}

    def test_a_member_that_goes_is_null(self) -> None:
        """What is beside it stays."""
        told = patched(self.SPEC, {"protocols.oauth2.scope_separator": None})
        assert told == {"protocols": {"oauth2": {"scope_separator": None}}}

    def test_an_object_goes_with_the_last_that_is_in_it(self) -> None:
        """And with that the object around it."""
        assert patched(self.SPEC, self.LEFT) == {"protocols": None}

    @pytest.mark.parametrize("wanted", ["protocols", "protocols.oauth2", "protocols.oauth2.issuer"])
    def test_an_object_that_git_has_stays(self, wanted: str) -> None:
        """Said by itself, or for what is in it."""
        told = patched(self.SPEC, self.LEFT, wanted)
        assert told["protocols"] is not None

    def test_an_object_with_members_of_others_stays(self) -> None:
        """They would go with it."""
        spec = {"protocols": {"oauth2": {**self.SPEC["protocols"]["oauth2"], "jwks_uri": "https://j"}}}
        told = patched(spec, self.LEFT)
        assert told["protocols"]["oauth2"] == {"scope_separator": None, "token_endpoint": None}

    def test_an_object_stays_for_what_is_given_to_it(self) -> None:
        """One member goes, and another has a new value."""
        told = patched(self.SPEC, {**self.LEFT, "protocols.oauth2.token_endpoint": "https://new"})
        assert told["protocols"]["oauth2"] == {"scope_separator": None, "token_endpoint": "https://new"}

    def test_what_follows_another_member_holds_no_object(self) -> None:
        """An issuer that is the identifier is nobody's word."""
        oauth2 = {**self.SPEC["protocols"]["oauth2"], "issuer": "https://a"}
        assert patched({"identifier": "https://a", "protocols": {"oauth2": oauth2}}, self.LEFT) == {
            "protocols": None
        }
        told = patched({"identifier": "https://b", "protocols": {"oauth2": oauth2}}, self.LEFT)
        assert told["protocols"] is not None

    def test_an_object_with_defaults_stands_by_itself(self) -> None:
        """A zone's protocols are there whatever is said of them."""
        told = patched(
            {"protocols": {"oauth2": {"pkce_required": False}}},
            {"protocols.oauth2.pkce_required": True},
            kind="Zone",
        )
        assert told == {"protocols": {"oauth2": {"pkce_required": True}}}

    def test_keys_that_leave_a_map_are_named(self) -> None:
        """A merge patch keeps what it does not name."""
        path = "protocols.oauth2.authorization_parameters"
        spec = {"protocols": {"oauth2": {"authorization_parameters": {"hd": "acme", "prompt": "login"}}}}
        told = patched(spec, {path: {"prompt": "none"}}, path)
        assert told["protocols"]["oauth2"]["authorization_parameters"] == {"hd": None, "prompt": "none"}

    @pytest.mark.parametrize("value", [{"secret": {"from_env": "X"}}, {"local_id": "a"}], ids=str)
    def test_a_pointer_is_no_map(self, value: dict[str, Any]) -> None:
        """Nothing of what was there is named in it."""
        assert patched({"metadata": {"icon_url": "https://i"}}, {"metadata": value}) == {"metadata": value}


class TestUnlinking:
    def cleared(self, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """What takes references to `gone` out."""
        return unlink(entity(kind, "it", spec), KINDS[kind], frozenset({"gone", "too"}))

    def test_a_list_loses_what_goes(self) -> None:
        """And keeps the rest in its order."""
        spec = {"dependencies": ["a", "gone", "b", "too"]}
        assert self.cleared("Application", spec) == {"dependencies": ["a", "b"]}

    def test_a_reference_becomes_null(self) -> None:
        """Where the kind can be without it."""
        spec = {"application_id": "gone", "credential_provider_id": "stays"}
        assert self.cleared("Resource", spec) == {"application_id": None}

    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("Resource", {"application_id": "stays", "name": "gone"}),
            ("Application", {"dependencies": ["a", "b"]}),
            ("ApplicationCredential", {"application_id": "gone", "provider_id": "gone"}),
            ("RoleAssignment", {"role_id": "gone"}),
        ],
    )
    def test_nothing_else_is_touched(self, kind: str, spec: dict[str, Any]) -> None:
        """Texts, references to what stays, and what cannot change or be without: that goes itself."""
        assert self.cleared(kind, spec) == {}
