"""The base of a changeset: what was written since the plan was made stops it."""

import pytest
from tests.support.applying import Git, api, app, create, on, update

from runtime.domain.errors import PreconditionFailed as Stale
from runtime.domain.kinds import APPLICATION, RESOURCE, ZONE, Verb
from runtime.services.management.people import groups
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications


async def test_stale_base_says_who(git: Git, zone: str) -> None:
    """Something that the changeset touches was changed since: 412, with who did it and what."""
    await git.apply(app("agent", zone))
    base, agent = await git.revision(), git.id("Application", "agent")
    await git.company.update(APPLICATION, zone, agent, name="Renamed by hand")
    with pytest.raises(Stale) as refused:
        await git.apply(update("Application", agent, "agent", zone, name="x"), base=base)
    problem = refused.value.problems[0]
    assert problem.field == "operations[0]"
    assert "`agent` was changed by system `tester`" in problem.message
    assert "applications.update" in problem.message


async def test_stale_members_and_dependencies(git: Git, zone: str) -> None:
    """Members and dependencies that the plan has not seen make its base stale too."""
    await git.apply(create("Group", "staff", zone, name="Staff"), app("agent", zone), api("calendar", zone))
    base, parents = await git.revision(), {"zone_id": zone}
    group, agent = git.id("Group", "staff"), git.id("Application", "agent")
    there = await git.company.run(ZONE, Verb.RETRIEVE, {}, zone)
    ann = await git.company.user(there, "ann@example.org")
    async with unit_of_work(git.company.services, git.company.caller, "r") as unit:
        await groups.add_member(unit, parents, group, ann.id)
        await applications.add_dependency(unit, parents, agent, git.id("Resource", "calendar"), ())
    with pytest.raises(Stale, match="group_members"):
        await git.apply(update("Group", group, "staff", zone, members=[]), base=base)
    with pytest.raises(Stale, match="application_dependencies"):
        await git.apply(update("Application", agent, "agent", zone, dependencies=[]), base=base)


async def test_unrelated_changes_do_not_matter(git: Git, zone: str) -> None:
    """Only what is touched is compared with the base."""
    await git.apply(app("agent", zone), app("other", zone))
    base = await git.revision()
    await git.company.update(APPLICATION, zone, git.id("Application", "other"), name="x")
    await git.apply(update("Application", git.id("Application", "agent"), "agent", zone, name="x"), base=base)


async def test_deleting_a_zone_touches_what_is_inside(git: Git, zone: str) -> None:
    """A zone does not go with something in it that the plan has not seen."""
    base = await git.revision()
    await git.company.create(RESOURCE, zone, identifier="https://late.test", name="Late")
    with pytest.raises(Stale):
        await git.apply(on("delete", "Zone", zone), base=base)
    await git.apply(on("delete", "Zone", zone))


async def test_base_of_the_future(git: Git, zone: str) -> None:
    """A revision that has never been is no base."""
    with pytest.raises(Stale, match=r"the base revision .* does not exist"):
        await git.apply(app("x", zone), base=await git.revision() + 1)
