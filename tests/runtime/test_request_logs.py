"""Lines about requests: refusals in the log, and the access log."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from tests.support.factories import company_of
from tests.support.logs import logged_lines
from tests.support.oauth_site import Site
from tests.support.server import serve


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service that logs everything, with an access log."""
    with serve(tmp_path_factory.mktemp("server"), log_level="info", access_log="json") as server:
        yield Site(server, company_of(server))


def line_of(ask: Callable[[], httpx.Response]) -> dict[str, Any]:
    """The line of the access log about the answer to a request."""
    with redirect_stdout(io.StringIO()) as written:
        request_id = ask().headers["X-Request-ID"]
    [line] = [each for each in written.getvalue().splitlines() if request_id in each]
    found: dict[str, Any] = json.loads(line)
    return found


class TestRefusals:
    """Who operates the service reads why a request was refused, without any access to its zones."""

    def test_of_a_token_request(self, site: Site) -> None:
        """The words of the decision record, the zone, and the request id that the caller was told."""
        zone = site.zone("Home")
        app = site.app(zone, "refused").app
        form = {**app.form, "grant_type": "client_credentials"}
        url = f"{zone.protocols.oauth2.issuer}/oauth/token"
        with logged_lines() as lines:
            wrong = httpx.post(url, data={**form, "client_secret": "wrong"})

        [line] = [each for each in lines if each["event"] == "request refused"]
        assert wrong.status_code == 401
        assert (line["log_level"], line["request"]) == ("info", "client_credentials")
        assert (line["zone_id"], line["request_id"]) == (zone.id, wrong.headers["X-Request-ID"])
        assert line["reason"].startswith("invalid_client: ")
        assert (line["step"], line["application_id"]) == ("client", app.id)

    def test_of_the_management_api(self, site: Site) -> None:
        """A rule that was broken is told with its code; an answer leaves no line."""
        headers = site.server.headers
        with logged_lines() as lines:
            assert httpx.get(f"{site.server.url}/zones", headers=headers).status_code == 200
            missing = httpx.get(f"{site.server.url}/zones/none", headers=headers)

        [line] = [each for each in lines if each["event"] == "request refused"]
        assert missing.status_code == 404
        assert line["reason"].startswith("not_found: ")
        assert (line["path"], line["request_id"]) == ("/zones/none", missing.headers["X-Request-ID"])

    def test_a_caller_has_no_line_for_each_of_its_inventions(self, site: Site) -> None:
        """What a forged token claims is in the reason, and does not make it another one."""
        tokens = [jwt.encode({"organization_id": f"invented-{number}"}, "k" * 32) for number in range(20)]
        with logged_lines() as lines:
            statuses = {
                httpx.get(f"{site.server.url}/zones", headers={"Authorization": f"Bearer {each}"}).status_code
                for each in tokens
            }

        said = [each for each in lines if each["event"] == "request refused"]
        assert statuses == {401}
        assert len(said) == 1
        assert "invented-0" in said[0]["reason"]

    def test_a_path_of_slashes_leads_nowhere(self, site: Site) -> None:
        """It is no failure of the service, which would have a traceback of thousands of lines in its log."""
        assert httpx.get(f"{site.server.url}/healthz").status_code == 200
        with logged_lines() as lines:
            statuses = [
                httpx.get(site.server.url + start + "/" * 10_000).status_code
                for start in ("/healthz", "/zones", "/a/b", "")
            ]

        assert statuses == [404] * 4
        assert [each["event"] for each in lines if each["log_level"] == "error"] == []

    def test_of_anybody_once_in_a_while(self, site: Site) -> None:
        """A hundred strangers without a credential make one line, so nobody fills the disk with them."""
        with logged_lines() as lines:
            statuses = {httpx.get(f"{site.server.url}/zones").status_code for _ in range(20)}

        assert statuses == {401}
        assert len([each for each in lines if each["event"] == "request refused"]) == 1


class TestAccessLog:
    """One object for each request, whatever it came to."""

    def test_of_an_answer(self, site: Site) -> None:
        """Endpoint and outcome as the metrics have them; no query."""
        url = f"{site.server.url}/zones?limit=7"
        line = line_of(lambda: httpx.get(url, headers=site.server.headers))

        assert (line["method"], line["endpoint"], line["path"]) == ("GET", "management list", "/zones")
        assert (line["status"], line["outcome"], line["address"]) == (200, "2xx", "127.0.0.1")
        assert 0 < line["seconds"] < 60

    def test_of_a_refusal(self, site: Site) -> None:
        """The error code is the outcome."""
        url = f"{site.zone('Home').protocols.oauth2.issuer}/oauth/token"
        line = line_of(lambda: httpx.post(url, data={"grant_type": "none", "client_id": "none"}))

        assert (line["endpoint"], line["status"]) == ("/oauth/token", 401)
        assert line["outcome"] == "invalid_client"

    def test_of_what_is_nowhere(self, site: Site) -> None:
        """A path that no route has is not repeated: it may be anything."""
        line = line_of(lambda: httpx.get(f"{site.server.url}/somewhere/secret"))

        assert (line["endpoint"], line["path"], line["status"]) == ("none", None, 404)

    def test_of_what_opens_something(self, site: Site) -> None:
        """The token of an invitation stands in its path, and nowhere in the log."""
        line = line_of(lambda: httpx.get(f"{site.server.url}/invitations/{'x' * 43}"))

        assert (line["path"], line["status"]) == ("/invitations/***", 404)

    def test_is_off_unless_asked_for(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Standard output stays empty."""
        with serve(tmp_path) as server:
            assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert capsys.readouterr().out == ""
