"""Form tokens: one submission of one form of one interaction of one zone, for a quarter of an hour."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.oauth_site import Site

from runtime.domain.errors import ForgedForm
from runtime.domain.identifiers import new_id
from runtime.services.authorization import interactions
from runtime.services.authorization.interactions import INTERACTION_SECONDS
from runtime.services.container import Services

STORAGE = ("embedded", "servers")
HANDLE = "handle"


@pytest.fixture
def zone_id() -> str:
    return new_id()


async def consume(
    services: Services, zone_id: str, token: str | None, *, handle: str = HANDLE, purpose: str = "consent"
) -> bool:
    """Whether a submission with that token is accepted."""
    try:
        await interactions.consume_form_token(services, zone_id, handle, purpose, token, address="192.0.2.1")
    except ForgedForm:
        return False
    return True


def issued(site: Site, zone_id: str) -> str:
    return interactions.new_form_token(site.services, zone_id, HANDLE, "consent")


def later(site: Site, seconds: int) -> Services:
    """The services at a later time."""
    clock = site.services.clock
    return replace(site.services, clock=lambda: clock() + timedelta(seconds=seconds))


def test_a_token_is_accepted_once(site: Site, zone_id: str) -> None:
    """The first submission counts; the same token is refused afterwards."""
    token = issued(site, zone_id)

    assert site.run(consume(site.services, zone_id, token))
    assert not site.run(consume(site.services, zone_id, token))


def test_two_tokens_of_one_form_are_independent(site: Site, zone_id: str) -> None:
    """Using one leaves the other usable: a page may be loaded twice."""
    first, second = issued(site, zone_id), issued(site, zone_id)

    assert site.run(consume(site.services, zone_id, first))
    assert site.run(consume(site.services, zone_id, second))


def test_a_token_of_another_interaction_is_refused(site: Site, zone_id: str) -> None:
    """The handle is signed with it."""
    assert not site.run(consume(site.services, zone_id, issued(site, zone_id), handle="another"))


def test_a_token_of_another_form_is_refused(site: Site, zone_id: str) -> None:
    """The purpose is signed with it: a sign-in form's token does not answer the consent page."""
    assert not site.run(consume(site.services, zone_id, issued(site, zone_id), purpose="sign-in"))


def test_a_token_of_another_zone_is_refused(site: Site, zone_id: str) -> None:
    """The zone is signed with it."""
    assert not site.run(consume(site.services, new_id(), issued(site, zone_id)))


def test_a_token_ends_with_its_interaction(site: Site, zone_id: str) -> None:
    """It is refused from the second on in which its quarter of an hour is over."""
    token = issued(site, zone_id)

    assert not site.run(consume(later(site, INTERACTION_SECONDS), zone_id, token))
    assert site.run(consume(later(site, INTERACTION_SECONDS - 60), zone_id, token))


def test_nobody_prolongs_a_token(site: Site, zone_id: str) -> None:
    """The time of its end is signed with it."""
    until, _, rest = issued(site, zone_id).partition(".")

    assert not site.run(consume(site.services, zone_id, f"{int(until) + 60}.{rest}"))


@pytest.mark.parametrize("token", [None, "", ".", "0..", "made-up", "1.2.3", "\ud800.x.y"])
def test_what_is_no_token_is_refused(site: Site, zone_id: str, token: str | None) -> None:
    """Whatever a form sends in its place."""
    assert not site.run(consume(site.services, zone_id, token))
