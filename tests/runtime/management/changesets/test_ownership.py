"""Ownership: no configuration changes or deletes what another manages, and handing over takes both."""

from typing import Any

import pytest
from tests.support.applying import OWNER, Git, adopt, create, on, update

from runtime.domain.errors import Conflict, Forbidden, ManagementError
from runtime.domain.kinds import APPLICATION, GROUP
from runtime.services.management.changesets.changeset import packed
from runtime.services.management.changesets.ownership import applied_values


@pytest.fixture
async def git(git: Git) -> Git:
    """A configuration with a zone of its own, and an application in it."""
    await git.apply(create("Zone", "acme", name="Acme"))
    await git.apply(create("Application", "agent", git.id("Zone", "acme"), name="Agent", identifier="agent"))
    return git


def zone_of(git: Git) -> str:
    return git.id("Zone", "acme")


def agent_of(git: Git) -> str:
    return git.id("Application", "agent")


OPERATIONS = {
    "update": lambda git: update("Application", agent_of(git), "agent", zone_of(git), name="x"),
    "adopt": lambda git: adopt("Application", agent_of(git), "agent", zone_of(git)),
    "delete": lambda git: on("delete", "Application", agent_of(git)),
    "release": lambda git: on("release", "Application", agent_of(git)),
    "delivered": lambda git: on("delivered", "Application", agent_of(git)),
    "rename": lambda git: on("rename", "Application", agent_of(git), name="other"),
}


@pytest.mark.parametrize("op", OPERATIONS)
async def test_nothing_of_another_owner(git: Git, op: str) -> None:
    """Whatever another configuration tries with it, an entity stays as its owner left it."""
    before = await git.snapshot()
    with pytest.raises(Conflict, match=f"belongs to `{OWNER}`"):
        await git.as_owner("somebody/else").apply(OPERATIONS[op](git))
    assert await git.snapshot() == before


@pytest.mark.parametrize("op", ["update", "delete", "release", "rename"])
async def test_what_nobody_owns_is_adopted_first(git: Git, op: str) -> None:
    """An entity without a record is invisible to every operation but an adoption."""
    await git.apply(on("release", "Application", agent_of(git)))
    with pytest.raises(Conflict, match="adopt it before"):
        await git.apply(OPERATIONS[op](git))


async def test_handing_over_takes_two_sides(git: Git) -> None:
    """One configuration releases, the other adopts; the entity stays what it is."""
    other = git.as_owner("somebody/else")
    await git.apply(on("release", "Application", agent_of(git)))
    await other.apply(adopt("Application", agent_of(git), "their-agent", zone_of(git), name="Agent"))
    found = await git.found("Application", "their-agent")
    assert found["id"] == agent_of(git)
    assert found["ownership"]["owner"] == "somebody/else"


async def test_adoption_without_changes_claims_what_stands(git: Git) -> None:
    """Fields that already have the wanted value are owned from then on, with that value as the base."""
    zone = zone_of(git)
    group = await git.company.create(GROUP, zone, name="Staff", identifier="staff")
    operation = adopt("Group", group.id, "staff", zone)
    await git.apply({**operation, "fields": ["name", "identifier", "members"]})
    record = (await git.found("Group", "staff"))["ownership"]
    assert record["applied"] == {"name": "Staff", "identifier": "staff", "members": []}


async def test_adoption_can_change(git: Git) -> None:
    """An adoption writes what git wants at once."""
    made = await git.company.create(APPLICATION, zone_of(git), name="By hand", identifier="hand")
    await git.apply(adopt("Application", made.id, "hand", zone_of(git), name="From git"))
    found = await git.found("Application", "hand")
    assert found["spec"]["name"] == "From git"
    assert found["ownership"]["applied"] == {"name": "From git"}


async def test_adopting_again_changes_nothing(git: Git) -> None:
    """Adopting what one owns already is allowed: a lost answer must not stop the next run."""
    await git.apply(adopt("Application", agent_of(git), "agent", zone_of(git)))
    assert (await git.found("Application", "agent"))["ownership"]["owner"] == OWNER


@pytest.mark.parametrize("op", ["adopt", "update", "delete"])
async def test_platform_entities_stay_the_platforms(git: Git, op: str) -> None:
    """What the service manages itself cannot be owned from git."""
    zone = zone_of(git)
    builtin = next(
        line for line in await git.snapshot("acme") if line.get("kind") == "Provider" and line["handle"]
    )
    assert builtin["owner_type"] == "platform"
    operation = {
        "adopt": adopt("Provider", builtin["id"], "sts", zone),
        "update": update("Provider", builtin["id"], "sts", zone, name="x"),
        "delete": on("delete", "Provider", builtin["id"]),
    }[op]
    with pytest.raises((Forbidden, Conflict)):
        await git.apply(operation)


async def test_protected_is_not_deleted(git: Git) -> None:
    """Protection stands on the server: removing the manifest does not remove it."""
    operation = update("Application", agent_of(git), "agent", zone_of(git))
    await git.apply({**operation, "protect": True})
    await git.apply(operation)  # says nothing about protection, and leaves it
    with pytest.raises(Conflict, match="protected"):
        await git.apply(on("delete", "Application", agent_of(git)))
    await git.apply({**operation, "protect": False})
    await git.apply(on("delete", "Application", agent_of(git)))
    assert await git.names("Application") == set()


@pytest.mark.parametrize("above", ["Application", "Zone"])
async def test_protected_is_not_taken_along(git: Git, above: str) -> None:
    """Protection holds whoever deletes what the protected entity is part of."""
    zone, other = zone_of(git), git.as_owner("somebody/else")
    key = {"application_id": agent_of(git), "type": "public"}
    await other.apply({**create("ApplicationCredential", "key", zone, **key), "protect": True})
    subject = (await git.found("ApplicationCredential", "key"))["id"]
    deletion = on("delete", above, git.id(above, "agent" if above == "Application" else "acme"))

    with pytest.raises(Conflict, match="`key` of `somebody/else` would be deleted"):
        await git.apply(deletion)
    assert await git.names("ApplicationCredential") == {"key"}

    await other.apply({**update("ApplicationCredential", subject, "key", zone), "protect": False})
    await git.apply(deletion)
    assert await git.names("ApplicationCredential") == set()


async def test_names_can_be_exchanged(git: Git) -> None:
    """Two entities swap their names in one changeset."""
    zone = zone_of(git)
    await git.apply(create("Application", "other", zone, name="Other", identifier="other"))
    first, second = agent_of(git), git.id("Application", "other")
    await git.apply(
        on("rename", "Application", first, name="temporary"),
        on("rename", "Application", second, name="agent"),
        on("rename", "Application", first, name="other"),
    )
    assert (await git.found("Application", "agent"))["id"] == second
    assert (await git.found("Application", "other"))["id"] == first


async def test_rename_to_a_name_that_is_taken(git: Git) -> None:
    """A name means one entity of a kind in a zone."""
    zone = zone_of(git)
    await git.apply(create("Application", "other", zone, name="Other", identifier="other"))
    with pytest.raises(Conflict, match="the name `agent`"):
        await git.apply(on("rename", "Application", git.id("Application", "other"), name="agent"))


async def test_same_name_in_another_zone_and_kind(git: Git) -> None:
    """Names are counted by zone and kind."""
    await git.apply(create("Zone", "beta", name="Beta"))
    await git.apply(
        create("Application", "agent", git.id("Zone", "beta"), name="Agent", identifier="agent"),
        create("Group", "agent", zone_of(git), name="Agent"),
    )


async def test_replacement_takes_over_the_name(git: Git) -> None:
    """What is deleted makes way for what is created under its name, in the same changeset."""
    before = agent_of(git)
    await git.apply(
        on("delete", "Application", before),
        create("Application", "agent", zone_of(git), name="Agent", identifier="agent"),
    )
    assert agent_of(git) != before
    assert (await git.found("Application", "agent"))["id"] == agent_of(git)


async def test_deletion_takes_the_records_inside_with_it(git: Git) -> None:
    """With an application go its credentials and their records: their names are free at once."""
    zone = zone_of(git)
    key = {"application_id": agent_of(git), "type": "public"}
    await git.apply(create("ApplicationCredential", "key", zone, **key))
    await git.apply(
        on("delete", "Application", agent_of(git)),
        on("delete", "ApplicationCredential", git.id("ApplicationCredential", "key")),
        create("Application", "agent", zone, name="Agent", identifier="agent"),
        create(
            "ApplicationCredential",
            "key",
            zone,
            application_id={"local_id": "Application:agent"},
            type="public",
        ),
    )
    assert await git.names("ApplicationCredential") == {"key"}


async def test_deleting_a_zone_deletes_its_records(git: Git) -> None:
    """Nothing of a zone stays behind."""
    await git.apply(on("delete", "Zone", zone_of(git)))
    assert all(line.get("ownership") is None for line in await git.snapshot())
    await git.apply(create("Zone", "acme", name="Acme"))


async def test_deleted_by_hand_is_not_there(git: Git) -> None:
    """What somebody deleted through the API has no record left, and its name is free."""
    await git.company.delete(APPLICATION, zone_of(git), agent_of(git))
    with pytest.raises(ManagementError, match="there is no Application"):
        await git.apply(on("delete", "Application", agent_of(git)))
    await git.apply(create("Application", "agent", zone_of(git), name="Agent", identifier="agent"))


@pytest.mark.parametrize(
    ("fields", "written", "before", "found", "applied"),
    [
        (["name"], {"name": "x"}, {}, {}, {"name": "x"}),
        (["name"], {}, {"name": "old"}, {"name": "live"}, {"name": "old"}),
        (["name"], {}, {}, {"name": "live"}, {"name": "live"}),
        (["name"], {"name": None}, {"name": "old"}, {}, {}),
        ([], {"name": "x"}, {"name": "old"}, {}, {}),
        (["a.b", "a.c"], {"a": {"b": 1}}, {"a": {"b": 0, "c": 2}}, {}, {"a": {"b": 1, "c": 2}}),
        (["a.b"], {"a": None}, {"a": {"b": 1}}, {}, {}),
        (["a.b"], {"a": {"b": None}}, {"a": {"b": 1}}, {}, {}),
        (["list"], {"list": []}, {"list": ["x"]}, {}, {"list": []}),
    ],
)
def test_the_base_of_the_next_comparison_is_what_was_applied(
    fields: list[str],
    written: dict[str, Any],
    before: dict[str, Any],
    found: dict[str, Any],
    applied: dict[str, Any],
) -> None:
    """The base of the next comparison: written, else applied before, else found; null is nothing."""
    assert applied_values(fields, written, before, found) == applied


async def test_a_base_that_was_empty_stays_empty(git: Git) -> None:
    """What somebody set since then is theirs: it does not become the base when something else is written."""
    fields = {"fields": ["name", "description"]}
    await git.apply(update("Application", agent_of(git), "agent", zone_of(git), description=None) | fields)
    await git.company.update(APPLICATION, zone_of(git), agent_of(git), description="by hand")
    await git.apply(update("Application", agent_of(git), "agent", zone_of(git), name="Other") | fields)

    record = (await git.found("Application", "agent"))["ownership"]
    assert record["applied"] == {"name": "Other"}


async def test_what_is_claimed_with_current_status_is_the_base(git: Git) -> None:
    """An update that only claims a member writes nothing, and records what is there."""
    await git.company.update(APPLICATION, zone_of(git), agent_of(git), description="by hand")
    fields = {"fields": ["name", "identifier", "description"]}
    await git.apply(update("Application", agent_of(git), "agent", zone_of(git)) | fields)

    record = (await git.found("Application", "agent"))["ownership"]
    assert record["applied"] == {"name": "Agent", "identifier": "agent", "description": "by hand"}


async def test_a_secret_is_undelivered_until_somebody_says_so(git: Git) -> None:
    """Its owner alone says so; a change of the name in git neither says so nor stands in the way."""
    zone = zone_of(git)
    key = {"application_id": agent_of(git), "type": "password", "identifier": "key"}
    public = {**key, "type": "public", "identifier": "public"}
    await git.apply(
        create("ApplicationCredential", "key", zone, **key),
        create("ApplicationCredential", "public", zone, **public),
    )
    found = [await git.found("ApplicationCredential", name) for name in ("key", "public")]
    assert [each["ownership"]["undelivered"] for each in found] == [True, False]
    subject = git.id("ApplicationCredential", "key")
    with pytest.raises(Conflict):
        await git.as_owner("acme/other").apply(on("delivered", "ApplicationCredential", subject))
    await git.apply(on("rename", "ApplicationCredential", subject, name="renamed"))
    assert (await git.found("ApplicationCredential", "renamed"))["ownership"]["undelivered"]

    base = await git.revision()
    await git.apply(on("rename", "ApplicationCredential", subject, name="renamed again"))
    await git.apply(on("delivered", "ApplicationCredential", subject), base=base)
    assert not (await git.found("ApplicationCredential", "renamed again"))["ownership"]["undelivered"]


PLACE = {"file": "config/apps.yaml", "line": 14}
COMMIT = {"commit": "9fceb02d0ae598e95dc970b74767f19372d61af8"}


async def _source(git: Git, *operations: dict[str, Any], **header: Any) -> dict[str, Any]:
    """Apply these; the `source` of the agent's record afterwards."""
    await git.send(await git.body(*operations, **header))
    found: dict[str, Any] = (await git.found("Application", "agent"))["ownership"]["source"]
    return found


async def test_the_record_has_the_place_of_the_manifest_beside_the_commit(git: Git) -> None:
    """Both as of the changeset that wrote it last."""
    change = update("Application", agent_of(git), "agent", zone_of(git), name="A") | {"source": PLACE}
    assert await _source(git, change, source=COMMIT) == {**COMMIT, **PLACE}


async def test_a_write_without_a_place_leaves_none(git: Git) -> None:
    """A line that was true of another commit would be a wrong one: older clients send none."""
    placed = update("Application", agent_of(git), "agent", zone_of(git), name="A") | {"source": PLACE}
    assert "file" in await _source(git, placed, source=COMMIT)

    plain = update("Application", agent_of(git), "agent", zone_of(git), name="B")
    assert await _source(git, plain, source=COMMIT) == COMMIT


async def test_renaming_tells_the_new_place(git: Git) -> None:
    """A renamed manifest has mostly moved as well."""
    rename = on("rename", "Application", agent_of(git), name="agent") | {"source": PLACE}
    assert await _source(git, rename, source=COMMIT) == {**COMMIT, **PLACE}


async def test_what_is_said_of_delivery_leaves_the_place(git: Git) -> None:
    """No manifest was read for it."""
    placed = update("Application", agent_of(git), "agent", zone_of(git), name="A") | {"source": PLACE}
    await _source(git, placed, source=COMMIT)

    assert await _source(git, on("delivered", "Application", agent_of(git))) == {**COMMIT, **PLACE}


async def test_a_changeset_from_before_is_the_same_when_it_is_sent_again(git: Git) -> None:
    """What an operation without a place comes to is what it came to before there were places."""
    plain, placed = on("rename", "Group", "g", name="n"), on("rename", "Group", "g", name="n", source=PLACE)
    (told,) = packed(await git.body(plain)).operations
    (more,) = packed(await git.body(placed)).operations
    assert "source" not in told.as_json()
    assert more.as_json() == {**told.as_json(), "source": PLACE}
