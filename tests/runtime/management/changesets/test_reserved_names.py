"""A changeset takes names as single calls do: an application is never called as a user is."""

import pytest
from tests.support.applying import Git, adopt, api, app, on, update

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.kinds import APPLICATION, ZONE
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import entities


@pytest.fixture
async def product(git: Git, zone: str) -> Zone:
    """The zone, in which a user is called `ann`."""
    async with git.company.services.database.reading() as conn:
        found = await entities.get(conn, ZONE, zone, within={})
    assert isinstance(found, Zone)
    user = await git.company.user(found, "ann@example.com")
    assert user.identifier == "ann@example.com"
    return found


@pytest.mark.threat("40f")
async def test_no_application_is_made_or_renamed_like_a_user(git: Git, product: Zone) -> None:
    """Nothing of such a changeset happens; the refusal says which operation it was."""
    await git.apply(app("billing", product.id))
    billing = git.id("Application", "billing")

    for operation in (
        app("other", product.id, identifier="ann@example.com"),
        app("other", product.id, identifier="ANN@example.com"),
        update("Application", billing, "billing", product.id, identifier="ann@example.com"),
    ):
        with pytest.raises(Conflict, match=r"operation \d .*already a User .*`ann@example\.com`"):
            await git.apply(app("beside", product.id), operation)

    names = await identifiers(git, product)
    assert names == {"billing"}


@pytest.mark.threat("40g")
async def test_an_adoption_gives_no_name_of_a_user(git: Git, product: Zone) -> None:
    """What was made by hand may be taken over under its name, and under no user's."""
    by_hand = await git.company.create(APPLICATION, product.id, identifier="by-hand", name="By hand")

    with pytest.raises(Conflict, match="already a User"):
        await git.apply(
            adopt("Application", by_hand.id, "taken", product.id, identifier="ann@example.com", name="Ann")
        )
    await git.apply(adopt("Application", by_hand.id, "taken", product.id, identifier="taken", name="Ann"))

    assert await identifiers(git, product) == {"taken"}


async def test_an_application_is_replaced_under_its_name(git: Git, product: Zone) -> None:
    """Git takes one away and makes it again, in one changeset or in two; names can be exchanged in steps."""
    await git.apply(app("billing", product.id))
    first = git.id("Application", "billing")

    await git.apply(on("delete", "Application", first), app("billing", product.id))
    await git.apply(on("delete", "Application", git.id("Application", "billing")))
    await git.apply(app("billing", product.id))

    assert git.id("Application", "billing") != first
    assert await identifiers(git, product) == {"billing"}


@pytest.mark.threat("14e")
async def test_no_resource_is_made_or_renamed_like_its_zone(git: Git, product: Zone) -> None:
    """Tokens for the zone itself would be for that resource, too. An adoption is as good as a new one."""
    issuer = str(product.protocols.oauth2.issuer)
    await git.apply(api("files", product.id, identifier=f"{issuer}/files"))
    files = git.id("Resource", "files")
    by_hand = await git.company.resource(product, "https://by-hand.example")

    for operation in (
        api("other", product.id, identifier=issuer),
        update("Resource", files, "files", product.id, identifier=f"{issuer}/"),
        adopt("Resource", by_hand.id, "taken", product.id, identifier=issuer),
    ):
        with pytest.raises(ValidationFailed, match=r"operation \d .*an issuer of the zone"):
            await git.apply(app("beside", product.id), operation)
    await git.apply(adopt("Resource", by_hand.id, "taken", product.id, identifier=f"{issuer}/by-hand"))

    assert await identifiers(git, product) == set()


async def identifiers(git: Git, zone: Zone) -> set[str]:
    """What the applications of a zone are called."""
    async with git.company.services.database.transaction() as conn:
        within = {"zone_id": zone.id}
        return {one.identifier async for one in entities.all_of(conn, APPLICATION, within=within)}  # type: ignore[attr-defined]
