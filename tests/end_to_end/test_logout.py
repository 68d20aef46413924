"""Signing out at one zone, heard of by an application of another: configured from files, told over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import httpx
import jwt
import pytest
from acme import Application, Browser, Page, Server, written_secret

ADA, PASSWORD = "ada@shop.example", "correct horse battery staple"
CALLBACK = "http://localhost:8600/callback"
API = "https://api.shop.example"
CONFIG = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: staff}
spec: {name: Staff}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: staff, name: shop}
spec:
  name: Shop
  consent: implicit
  protocols:
    oauth2:
      redirect_uris: [{of_zone: shop, member: redirect_uri}]
      post_logout_redirect_uris: [{of_zone: shop, member: post_logout_redirect_uri}]
      backchannel_logout_uri: {of_zone: shop, member: backchannel_logout_uri}
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: staff, name: shop}
spec: {application: shop, type: public, identifier: shop}
---
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop, user_identity_provider: staff}
---
apiVersion: zonewright/v1
kind: Provider
metadata: {zone: shop, name: staff}
spec:
  name: Staff
  client_id: shop
  protocols: {oauth2: {issuer: {of_zone: staff, member: issuer}}}
---
apiVersion: zonewright/v1
kind: Resource
metadata: {zone: shop, name: api}
spec: {name: API, identifier: "https://api.shop.example"}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: shop, name: till}
spec:
  name: Till
  consent: implicit
  dependencies: [api]
  protocols:
    oauth2:
      redirect_uris: ["http://localhost:8600/callback"]
      backchannel_logout_uri: RECEIVER
      backchannel_logout_session_required: true
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: shop, name: till}
spec: {application: till, type: password, identifier: till}
"""


@contextmanager
def receiving() -> Iterator[tuple[str, "Queue[str]"]]:
    """A server that an application might run: its address, and the logout tokens that are posted there."""
    heard: Queue[str] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            heard.put(form["logout_token"][0])

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/logout", heard
        server.shutdown()


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_who_signs_out_is_out_everywhere(server: Server, tmp_path: Path):
    """From the zone that knows the person to the zone that trusts it, and from there to the application.

    What the application had works before, and no more when it has heard: it is told nothing that is not so.
    """
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "zonectl.yaml").write_text("owner: shop/identity\n")
    with receiving() as (address, heard):
        (tmp_path / "config" / "shop.yaml").write_text(CONFIG.replace("RECEIVER", address))
        server.zonectl("apply", str(tmp_path / "config"), "--yes", "--secrets-dir", str(tmp_path / "secrets"))
        server.run("user", "add", "--zone", "staff", "--email", ADA, "--password-stdin", stdin=PASSWORD)
        staff, shop = (server.zone(name)["protocols"]["oauth2"]["issuer"] for name in ("staff", "shop"))

        def sign_in(browser: Browser, page: Page, until: str) -> Page | str:
            return browser.submit(page, {"email": ADA, "password": PASSWORD}, until=until)

        secret = written_secret(tmp_path / "secrets", "shop", "till")
        till, browser = Application(shop, "till", secret), Browser()
        tokens = till.sign_in(browser, CALLBACK, sign_in, scope="openid")
        assert till.exchange(tokens["access_token"], API).status_code == 200

        page = browser.open(f"{staff}/openid/logout", until="nowhere")
        assert isinstance(page, Page)
        browser.submit(page, {}, until="nowhere")

        token = heard.get(timeout=30)
        assert till.exchange(tokens["access_token"], API).json()["error"] == "invalid_grant"
        keys = jwt.PyJWKSet.from_dict(httpx.get(f"{shop}/.well-known/jwks.json", trust_env=False).json())
        key = keys[jwt.get_unverified_header(token)["kid"]].key
        said = jwt.decode(token, key, algorithms=["RS256"], issuer=shop, audience="till")
        session = jwt.decode(tokens["id_token"], options={"verify_signature": False})
        assert (said["sid"], said["sub"]) == (session["sid"], session["sub"])
        assert heard.empty()
