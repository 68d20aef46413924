"""A changeset moves a stored secret to another address as little as a single call does."""

import pytest
from tests.support.applying import Git, adopt, create, update

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import PROVIDER

SECRET, OLD, NEW = "s3cret", "https://idp.example", "https://evil.example"


async def test_an_update_that_moves_a_secret_gives_it_again(git: Git, zone: str) -> None:
    """Refused without it, and with it done."""
    known = {"identifier": OLD, "name": "Sign-in", "client_id": "zone", "client_secret": SECRET}
    await git.apply(create("Provider", "idp", zone, **known))
    made = git.id("Provider", "idp")
    await git.apply(update("Provider", made, "idp", zone, name="Another name"))

    for spec in ({"identifier": NEW}, {"protocols": {"oauth2": {"token_endpoint": f"{NEW}/token"}}}):
        with pytest.raises(ValidationFailed, match="send it again"):
            await git.apply(update("Provider", made, "idp", zone, **spec))
    await git.apply(update("Provider", made, "idp", zone, identifier=NEW, client_secret=SECRET))


async def test_an_adoption_moves_no_secret(git: Git, zone: str) -> None:
    """Whoever adopts what was made by hand does not have its secret."""
    body = {"identifier": OLD, "name": "Sign-in", "client_id": "zone", "client_secret": SECRET}
    made = await git.company.create(PROVIDER, zone, **body)

    with pytest.raises(ValidationFailed, match="send it again"):
        await git.apply(adopt("Provider", made.id, "idp", zone, identifier=NEW, name="Sign-in"))
    await git.apply(adopt("Provider", made.id, "idp", zone, identifier=OLD, name="Sign-in"))
