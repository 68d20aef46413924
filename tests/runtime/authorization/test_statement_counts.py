"""Database statements of a sign-in with an existing session, counted at the driver."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from tests.support.oauth_site import Answer, Browser, Site

STORAGE = ("embedded", "servers")


@contextmanager
def statements(site: Site) -> Iterator[list[str]]:
    """The statements that are run meanwhile, but for what is written and read behind the answers."""
    noted: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        found = re.search(r"\bINSERT INTO \w+", statement) or re.search(r"\b(?:FROM|UPDATE) \w+", statement)
        if found and not found[0].endswith(("token_events", "epoch_changes")):
            verb = found[0].split()[0].replace("FROM", "SELECT")
            noted.append(f"{verb} {found[0].split()[-1]}")

    engine = site.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_each_leg_is_a_few_statements(site: Site, browser: Browser) -> None:
    """Who is it; the rest is known from before. What a code is worth is kept only if that is still so."""
    zone = site.zone()
    site.user(zone)
    api = site.run(site.company.resource(zone, "https://api.example", scopes=["read"]))
    client = site.app(zone, dependencies=[api])
    asked = {"resources": ["https://api.example"], "scope": "openid read"}
    assert {
        client.refresh(client.sign_in(browser, **asked)["refresh_token"]).status_code for _ in range(2)
    } == {200}

    with statements(site) as authorizing:
        answer = browser.open(client.url(**asked))
    assert isinstance(answer, Answer)
    with statements(site) as redeeming:
        redeemed = client.redeem(answer.code)
    with statements(site) as refreshing:
        assert client.refresh(redeemed.json()["refresh_token"]).status_code == 200

    assert redeemed.json()["scope"] == "openid read"
    assert authorizing == ["SELECT sessions"]
    assert redeeming in (["INSERT sessions"], ["INSERT sessions", "INSERT refresh_families"])
    family = "refresh_families"
    assert refreshing == [
        f"SELECT {family}",
        "SELECT sessions",
        "SELECT withdrawn_in_sessions",
        f"UPDATE {family}",
        f"SELECT {family}",
    ]
