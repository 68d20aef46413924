"""A person who manages an organization, at work without a tool of their own: what docs/organizations.md runs.

    python examples/manage.py sign-in ISSUER --as EMAIL --password-stdin
    python examples/manage.py call METHOD PATH [JSON]

The first prints an access token for the management API. The second calls it with the token in TOKEN and
prints the answer; 1 when it is a refusal. Settings: ZONECTL_SERVER.
"""

import argparse
import json
import os
import sys

import httpx
from acme import Application, Browser, Page, Unexpected

CLIENT = "zonectl"  # the public client that every organization's home zone has
CALLBACK = "http://127.0.0.1:8600/callback"  # on this machine, whatever the port


def sign_in(issuer: str, email: str, password: str) -> str:
    """An access token for the management API, for a person who is played by a browser without a window."""

    def answer(browser: Browser, page: Page, until: str) -> Page | str:
        return browser.submit(page, {"email": email, "password": password}, until=until)

    browser = Browser()
    try:
        tokens = Application(issuer, CLIENT).sign_in(
            browser, CALLBACK, answer, scope="openid", resources=[os.environ["ZONECTL_SERVER"]]
        )
    finally:
        browser.close()
    token: str = tokens["access_token"]
    return token


def call(method: str, path: str, body: str | None) -> int:
    """Send one request to the management API and print the answer."""
    answer = httpx.request(
        method,
        f"{os.environ['ZONECTL_SERVER']}{path}",
        headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},
        json=json.loads(body) if body else None,
        timeout=30,
        trust_env=False,
    )
    if answer.content:
        print(json.dumps(answer.json(), indent=2))
    return 0 if answer.is_success else 1


def main() -> int:
    """Do one step. 1 when it is refused."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    steps = arguments.add_subparsers(dest="step", required=True)
    signing_in = steps.add_parser("sign-in")
    signing_in.add_argument("issuer")
    signing_in.add_argument("--as", dest="email", required=True)
    signing_in.add_argument("--password-stdin", action="store_true", required=True)
    calling = steps.add_parser("call")
    calling.add_argument("method")
    calling.add_argument("path")
    calling.add_argument("body", nargs="?")
    chosen = arguments.parse_args()
    if chosen.step == "call":
        return call(chosen.method, chosen.path, chosen.body)
    try:
        print(sign_in(chosen.issuer, chosen.email, sys.stdin.readline().strip()))
    except Unexpected as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
