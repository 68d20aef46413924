"""The applications of the example, one step at a time: what the guide runs where a real agent would run.

    python examples/client.py sign-in --as EMAIL --password-stdin
    python examples/client.py exchange CLIENT --for RESOURCE [--scope SCOPE] < SUBJECT_TOKEN
    python examples/client.py issuer
    python examples/client.py user-agents

Prints the token, and on standard error what it says. Settings: ZONECTL_SERVER, ZONECTL_API_KEY, and SECRETS
for the
directory that `zonectl apply --secrets-dir` wrote.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
from acme import Application, Browser, Page, Unexpected, claims, trust, written_secret

CALLBACK = "http://localhost:8600/callback"
RESOURCES = ("https://tools.acme.example/mcp", "https://payroll.acme.example/api")


def managed(path: str, **query: str) -> list[dict[str, Any]]:
    """What a list of the management API has."""
    answer = httpx.get(
        f"{os.environ['ZONECTL_SERVER']}{path}",
        params=query,
        headers={"Authorization": f"Bearer {os.environ['ZONECTL_API_KEY']}"},
        verify=trust(),
        trust_env=False,
    )
    answer.raise_for_status()
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def issuer() -> str:
    """Where the product zone is, by its slug."""
    (zone,) = managed("/zones", slug="acme-product")
    address: str = zone["protocols"]["oauth2"]["issuer"]
    return address


def user_agents() -> None:
    """Print who has registered at the product zone."""
    (zone,) = managed("/zones", slug="acme-product")
    for each in managed(f"/zones/{zone['id']}/user-agents"):
        print(f"{each['name']}  {each['identifier']}")


def application(name: str) -> Application:
    """The application of that client id, with its secret."""
    return Application(issuer(), name, written_secret(Path(os.environ["SECRETS"]), "product", name))


def sign_in(email: str, password: str) -> str:
    """The agent's token for a person, who is played by a browser without a window."""

    def answer(browser: Browser, page: Page, until: str) -> Page | str:
        if "password" in page.forms[0]["fields"]:
            return browser.submit(page, {"email": email, "password": password}, until=until)
        return browser.submit(page, {}, button="allow", until=until)

    browser = Browser()
    try:
        agent = application("calendar-agent")
        tokens = agent.sign_in(browser, CALLBACK, answer, scope="openid email", resources=RESOURCES)
    finally:
        browser.close()
    token: str = tokens["access_token"]
    return token


def main() -> int:
    """Do one step. 1 when the zone refuses it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    steps = arguments.add_subparsers(dest="step", required=True)
    signing_in = steps.add_parser("sign-in")
    signing_in.add_argument("--as", dest="email", required=True)
    signing_in.add_argument("--password-stdin", action="store_true", required=True)
    steps.add_parser("issuer")
    steps.add_parser("user-agents")
    exchanging = steps.add_parser("exchange")
    exchanging.add_argument("client")
    exchanging.add_argument("--for", dest="resource", required=True)
    exchanging.add_argument("--scope")
    chosen = arguments.parse_args()
    if chosen.step == "issuer":
        print(issuer())
        return 0
    if chosen.step == "user-agents":
        user_agents()
        return 0
    given = sys.stdin.readline().strip()
    if chosen.step == "sign-in":
        try:
            token = sign_in(chosen.email, given)
        except Unexpected as failure:
            print(failure, file=sys.stderr)
            return 1
    else:
        answer = application(chosen.client).exchange(given, chosen.resource, chosen.scope)
        if answer.status_code != 200:
            print(json.dumps(answer.json(), indent=2), file=sys.stderr)
            return 1
        token = answer.json()["access_token"]
    print(token)
    print(json.dumps(claims(token), indent=2), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
