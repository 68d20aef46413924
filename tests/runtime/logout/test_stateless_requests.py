"""A request to sign out stands in the address of the next page: nothing is stored for it."""

import pytest
from tests.runtime.logout.test_end_session import BYE, leave, signed_in
from tests.support.oauth_site import Answer, Browser, Site, assert_page

from runtime.storage.state.memory import InProcessState


@pytest.mark.threat("41b")
def test_nothing_is_kept_for_who_sends_a_request(site: Site) -> None:
    """However many forms with as large a state as is taken: the state has as many entries as before.

    What the form said stands in the address that it is answered with, where only this zone can read it.
    """
    client, tokens = signed_in(site, Browser())
    form = {"client_id": client.app.client_id, "post_logout_redirect_uri": BYE}
    known = leave(Browser(), client, "POST", **form, state="mine")
    assert Browser().open(known.headers["location"]) == Answer(f"{BYE}?state=mine")
    state = site.services.state
    assert isinstance(state, InProcessState)
    before = len(state)

    stranger = Browser()
    assert {
        leave(stranger, client, "POST", **form, state=f"{number:04}".ljust(4096, "x")).status_code
        for number in range(1_500)
    } == {303}

    assert len(state) == before
    assert_page(leave(Browser(), client, "POST", **form, state="\u20ac" * 4096), 400)
    assert client.userinfo(tokens["access_token"]).status_code == 200
