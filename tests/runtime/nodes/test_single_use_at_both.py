"""What counts once counts once at two nodes, whatever becomes of the Redis that they share in between."""

import time
from collections.abc import Callable, Iterator

import httpx
import pytest
import redis as redis_client
from tests.runtime.connect.conftest import Account, account_on, desk_on
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.test_troubled_state import (
    Begin,
    cut_off_from_who_ends,
    healthy,
    promoted_replica_that_lags,
    restored_from_disk,
)
from tests.runtime.nodes.views import account_at, browser_at, site_at
from tests.support.account_provider import account_provider
from tests.support.oauth_site import Answer
from tests.support.possession import Holder
from tests.support.proxy import proxied
from tests.support.redis import RedisServer, running_redis
from tests.support.waiting import wait_until

from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

Use = Callable[[Account], bool]


@pytest.fixture
def account(nodes: Nodes, redis: RedisServer) -> Iterator[Account]:
    """A desk with an account at a provider, at the first node, over a Redis that has run for a while.

    It has had a replica, too: the first one that a Redis gets begins another history.
    """
    with running_redis() as replica, proxied(redis.url) as way:
        replica.follow(way.port)
    nodes.first.call(lambda services: services.state.begin())
    with redis_client.Redis.from_url(redis.url) as client:
        client.set("zonewright:used:began", 0)
    with account_provider() as tracker:
        yield account_on(desk_on(site_at(nodes, nodes.first), browser_at(nodes, nodes.first)), tracker)


def authorization_code(account: Account) -> Use:
    """A code, which the agent redeems."""
    client = account.desk.agent
    place = account.desk.browser.open(client.url())
    answer = place if isinstance(place, Answer) else account.desk.browser.sign_in(place)
    return lambda at: at.desk.agent.redeem(answer.code).status_code == 200


def dpop_proof(account: Account) -> Use:
    """A proof of possession, which comes with an exchange. Spec: RFC 9449 section 11.1."""
    desk = account.desk
    subject = desk.sign_in()
    proof = Holder().proof(f"{desk.issuer}/oauth/token")

    def use(at: Account) -> bool:
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": subject,
            "subject_token_type": ACCESS_TOKEN,
            "resource": desk.documents.identifier,
            **desk.agent.app.form,
        }
        address = f"{desk.issuer}/oauth/token"
        answer = at.desk.agent.request("POST", address, data=form, headers={"DPoP": proof})
        return answer.json().get("error") == "access_denied"  # the proof counted; consent is another matter

    return use


def pushed_request(account: Account) -> Use:
    """A request that was pushed, which the browser opens. Spec: RFC 9126 section 4."""
    desk, client = account.desk, account.desk.agent
    query = httpx.URL(client.url()).params
    pushed = client.request("POST", f"{desk.issuer}/oauth/par", data={**query, **client.app.form})
    assert pushed.status_code == 201, pushed.text
    named = httpx.QueryParams(client_id=client.app.client_id, request_uri=pushed.json()["request_uri"])
    return lambda at: isinstance(at.desk.browser.open(f"{desk.issuer}/oauth/authorize?{named}"), Answer)


def connect_link(account: Account) -> Use:
    """The decision on a page."""
    desk = account.desk
    link = desk.link(desk.sign_in(), desk.documents)

    def use(at: Account) -> bool:
        page = at.desk.browser.open(link)
        assert not isinstance(page, Answer)
        if "decision" not in page.response.text:
            return False
        answer = at.desk.browser.post(page, decision="deny")
        return "You have not allowed this" in answer.text

    return use


def state_of_a_connection(account: Account) -> Use:
    """The provider's answer."""
    back = account.callback(account.desk.page(account.link(account.desk.sign_in(account.agent))))
    return lambda at: at.desk.browser.http.get(back).status_code == 200


ONCE = (authorization_code, dpop_proof, pushed_request, connect_link, state_of_a_connection)


def _let_the_second_end() -> None:
    """Proofs say the second in which they were made, and one of the second of a loss counts as new."""
    at = int(time.time())
    wait_until(lambda: int(time.time()) > at, otherwise=lambda: "the clock stands still")


@pytest.mark.threat("35g")
@pytest.mark.parametrize(
    "trouble",
    [healthy, restored_from_disk, promoted_replica_that_lags, cut_off_from_who_ends],
    ids=lambda trouble: trouble.__name__,
)
def test_what_was_used_at_one_node_is_used_up_at_both(
    nodes: Nodes, account: Account, redis: RedisServer, trouble: Begin
) -> None:
    """It is used at the first node; then Redis is another one, or has forgotten; then at both again."""
    first, second = (account_at(nodes, node, account) for node in nodes.both)
    assert first.desk.sign_in()
    uses = {prepare.__name__: prepare(first) for prepare in ONCE}
    with trouble(nodes, redis) as disturbed:
        counted = [{name: use(first) for name, use in uses.items()}]
        _let_the_second_end()
        disturbed.strike()
        for node in nodes.both if trouble is not cut_off_from_who_ends else [nodes.second]:
            nodes.wait(node)
        counted += [{name: use(at) for name, use in uses.items()} for at in (second, first)]

    if trouble is not cut_off_from_who_ends:
        assert counted[0] == dict.fromkeys(uses, True)
    times = {name: sum(each[name] for each in counted) for name in uses}
    assert [name for name, number in times.items() if number > 1] == []
