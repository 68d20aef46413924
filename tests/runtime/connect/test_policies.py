"""Policies and connect links: no link where they forbid, and one from before is no way around them."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.connect.conftest import REQUIRED, Account, Desk, returning
from tests.runtime.connect.test_decision_records import of
from tests.support.oauth_site import CALLBACK, Answer, Page, assert_page

from runtime.domain.kinds import RESOURCE

PERMIT = "permit (principal, action, resource);"
FORBID = '@id("never") forbid (principal, action, resource);'
NO_WRITING = (
    '@id("no-writing") forbid (principal, action, resource) when { context.scopes.contains("write") };'
)
NO_CHAINS = '@id("no-chains") forbid (principal, action, resource) when { context.chain_depth > 1 };'
DENIED = ("access_denied", "policy_denied")

STORAGE = ("embedded", "servers")


def decide(desk: Desk, *policies: str) -> None:
    desk.site.run(desk.site.company.policies(desk.zone, *policies))


def refusal(answer: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Error and reason, and whether there is an address for the user."""
    return answer["error"], answer.get("reason"), "error_uri" in answer


TARGETS: dict[str, Callable[[Account], Any]] = {
    "zone": lambda account: account.desk.documents,
    "vault": lambda account: account.desk.tickets,
    "provider": lambda account: account.issues,
}


@pytest.mark.parametrize("target", TARGETS)
def test_where_policies_forbid_there_is_no_link(account: Account, target: str) -> None:
    """The user can change nothing about it, whoever issues the resource's tokens."""
    desk, resource = account.desk, TARGETS[target](account)
    client = account.agent if target == "provider" else desk.agent
    token = desk.sign_in(client)
    assert refusal(desk.exchange(token, resource, client)) == ("access_denied", REQUIRED, True)

    decide(desk, FORBID)

    assert refusal(desk.exchange(token, resource, client)) == (*DENIED, False)


def test_the_record_of_the_refusal_has_the_rule(desk: Desk) -> None:
    """With its step, as if the user had agreed to everything."""
    token = desk.sign_in()
    decide(desk, FORBID)

    refused = desk.agent.token(
        grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
        subject_token=token,
        subject_token_type="urn:ietf:params:oauth:token-type:access_token",
        resource=desk.documents.identifier,
    )

    (record,) = of(desk, refused)
    assert (record["outcome"], record["step"], record["reason"]) == (
        "refused",
        11,
        "policy_denied",
    )
    assert [each["rule"] for each in record["policies"]] == ["never"]
    assert record["actors"] == [desk.agent.app.application.identifier]


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_from_before_is_no_way_around_them(account: Account, target: str) -> None:
    """The page is a refusal, the form stores nothing and uses no link; permitted again, it works."""
    desk, resource = account.desk, TARGETS[target](account)
    client = account.agent if target == "provider" else desk.agent
    link = returning(desk.link(desk.sign_in(client), resource, client), CALLBACK)
    form = desk.page(link)

    decide(desk, FORBID)

    refused = desk.page(link, status=403)
    assert "A policy does not let the application use this resource" in refused.text
    answer = desk.allow(form, credential="sk-of-ada")
    assert isinstance(answer, Answer)
    assert answer.values["error"] == "access_denied"
    assert nothing_is_stored(account, resource)
    assert account.tracker.asked == []

    decide(desk, PERMIT)
    assert isinstance(desk.allow(desk.page(link), credential="sk-of-ada"), Answer)
    assert not nothing_is_stored(account, resource)


def test_without_an_address_the_user_reads_it(desk: Desk) -> None:
    """A page; the decision record has the rule."""
    form = desk.page(desk.link(desk.sign_in(), desk.documents))
    decide(desk, FORBID)

    response = desk.browser.post(form, decision="allow")

    assert_page(response, 403)
    (record,) = of(desk, response)
    assert (record["event"], record["outcome"]) == ("connect", "refused")
    assert (record["application_id"], record["user_id"]) == (desk.agent.app.id, desk.ada.id)
    assert [each["rule"] for each in record["policies"]] == ["never"]


def test_who_says_no_is_not_told_of_policies(desk: Desk) -> None:
    """The decision is the user's own, and uses the link."""
    form = desk.page(returning(desk.link(desk.sign_in(), desk.documents), CALLBACK))
    decide(desk, FORBID)

    answer = desk.browser.send(form, decision="deny")

    assert isinstance(answer, Answer)
    assert answer.values["error_description"] == "the user denied the request"


@pytest.mark.parametrize("policies", [(PERMIT,), (FORBID,)], ids=["permitted", "forbidden"])
def test_a_code_is_not_redeemed_for_what_policies_forbid(account: Account, policies: tuple[str, ...]) -> None:
    """They changed while the user was at the provider: it issues no token, and nothing is stored."""
    token = account.desk.sign_in(account.agent)
    back = account.callback(account.desk.page(returning(account.link(token), CALLBACK)))

    decide(account.desk, *policies)
    answer = account.desk.browser.open(back)

    assert isinstance(answer, Answer)
    is_forbidden = policies == (FORBID,)
    assert answer.values.get("error") == ("access_denied" if is_forbidden else None)
    assert len(account.tracker.redeemed) == (not is_forbidden)
    assert nothing_is_stored(account, account.issues) == is_forbidden


def test_a_provider_is_not_asked_for_scopes_that_policies_leave_out(account: Account) -> None:
    """Where the exchange names none; the token that comes of it is handed out."""
    decide(account.desk, PERMIT, NO_WRITING)
    token = account.desk.sign_in(account.agent)

    done = account.connect(token)

    assert isinstance(done, Page)
    assert account.tracker.asked[0]["scope"] == "read"
    assert account.exchange(token)["scope"] == "read"


def test_a_named_scope_of_a_credential_has_no_link_where_it_is_forbidden(account: Account) -> None:
    """A credential is handed out whole: of a provider or of the vault it would be refused all the same."""
    desk = account.desk
    token, tickets = desk.sign_in(account.agent), desk.sign_in()
    decide(desk, PERMIT, NO_WRITING)

    assert refusal(account.exchange(token, scope="read write")) == (*DENIED, False)
    assert refusal(desk.exchange(tickets, desk.tickets)) == (*DENIED, False)
    assert refusal(account.exchange(token, scope="read")) == ("access_denied", REQUIRED, True)


def test_a_token_of_the_zone_is_narrowed_by_policies_and_has_a_link(desk: Desk) -> None:
    """The user consents to what was asked for; the token has what policies leave."""
    decide(desk, PERMIT, NO_WRITING)
    token = desk.sign_in()

    desk.allow(desk.page(desk.link(token, desk.documents)))

    assert desk.exchange(token, desk.documents)["scope"] == "read"


def test_a_wider_consent_that_policies_forbid_has_no_link(desk: Desk) -> None:
    """The scope that is missing would be left out anyway."""
    token = desk.sign_in()
    desk.allow(desk.page(desk.link(token, desk.documents, scope="read")))
    assert refusal(desk.exchange(token, desk.documents, scope="write")) == ("invalid_scope", REQUIRED, True)

    decide(desk, PERMIT, NO_WRITING)

    assert refusal(desk.exchange(token, desk.documents, scope="write")) == (*DENIED, False)


def test_policies_are_asked_about_the_chain_of_the_link(desk: Desk) -> None:
    """What a rule forbids for this chain alone is refused in it, and asked of the user in another."""
    server = desk.site.app(desk.zone, "Tool Server", dependencies=[desk.tickets])
    desk.update(RESOURCE, desk.documents.id, application_id=server.app.id)
    token, own = desk.sign_in(), desk.sign_in(server)
    desk.allow(desk.page(desk.link(token, desk.documents)))
    inner = desk.exchange(token, desk.documents)["access_token"]
    link = desk.link(inner, desk.tickets, server)
    assert "Tool Server" in desk.page(link).text

    decide(desk, PERMIT, NO_CHAINS)

    assert refusal(desk.exchange(inner, desk.tickets, server)) == (*DENIED, False)
    desk.page(link, status=403)
    assert "Tool Server" in desk.page(desk.link(own, desk.tickets, server)).text


def nothing_is_stored(account: Account, resource: Any) -> bool:
    kept = [row for table in ("delegated_grants", "consents") for row in account.rows(table)]
    return not account.rows("vault_tokens") and resource.id not in {row["resource_id"] for row in kept}
