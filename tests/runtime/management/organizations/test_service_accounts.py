"""Service accounts: credentials whose secret is shown once, and the tokens they are exchanged for."""

from base64 import b64encode

import httpx
import pytest
from tests.runtime.management.conftest import Api, caller

from runtime.domain.identifiers import new_id


class TestServiceAccounts:
    @pytest.fixture
    def account(self, api: Api) -> dict[str, str]:
        base = f"/organizations/{api.organization_id}/service-accounts"
        body = {"name": api.named("ci"), "description": "d"}
        made: dict[str, str] = api.ok("POST", base, body, status=201)
        return {**made, "path": f"{base}/{made['id']}"}

    def test_an_account_is_listed_and_changed(self, api: Api, account: dict[str, str]) -> None:
        """Its name is taken then, and what describes it is text, never null."""
        base = account["path"].rpartition("/")[0]
        api.refused(409, "POST", base, {"name": account["name"]})
        api.refused(400, "PATCH", account["path"], {"description": None})
        assert api.ok("PATCH", account["path"], {"description": "e"})["description"] == "e"
        assert account["id"] in {one["id"] for one in api.ok("GET", f"{base}?limit=100")["items"]}

    def test_the_secret_of_a_credential_is_shown_once(self, api: Api, account: dict[str, str]) -> None:
        """In the answer that it is made with, and in no other."""
        made = api.ok("POST", f"{account['path']}/credentials", {"name": "key"}, status=201)
        assert set(made) == {"id", "client_id", "client_secret", "created_at", "name"}
        path = f"{account['path']}/credentials/{made['id']}"
        assert set(api.ok("GET", path)) == {"id", "client_id", "created_at", "name"}
        assert api.ok("PATCH", path, {"name": "n"})["name"] == "n"
        page = api.ok("GET", f"{account['path']}/credentials?expand[]=permissions")
        assert page["permissions"]["service_account_credentials"]["create"] is True
        assert "client_secret" not in page["items"][0]

    def test_the_credentials_of_an_account_go_with_it(self, api: Api, account: dict[str, str]) -> None:
        """404 for one of an account that is deleted."""
        made = api.ok("POST", f"{account['path']}/credentials", {"name": "key"}, status=201)
        path = f"{account['path']}/credentials/{made['id']}"
        api.ok("GET", path)
        assert api("DELETE", account["path"]).status_code == 204
        api.refused(404, "GET", path)

    @pytest.fixture(params=["in the body", "by HTTP Basic"])
    def issued(self, api: Api, request: pytest.FixtureRequest) -> tuple[str, httpx.Response]:
        """The path of a new credential, and the answer to who authenticates with it."""
        account, credential = self._credential(api)
        pair = {name: credential[name] for name in ("client_id", "client_secret")}
        form, url = {"grant_type": "client_credentials"}, f"{api.server.url}/service-account-token"
        path = f"/organizations/{api.organization_id}/service-accounts/{account['id']}"
        if request.param == "in the body":
            answer = httpx.post(url, data={**form, **pair}, trust_env=False)
        else:
            answer = httpx.post(url, data=form, auth=httpx.BasicAuth(*pair.values()), trust_env=False)
        return f"{path}/credentials/{credential['id']}", answer

    def test_client_credentials_give_a_bearer_token_for_an_hour(
        self, issued: tuple[str, httpx.Response]
    ) -> None:
        """The answer is RFC 6749's, and nobody may cache it."""
        _, answer = issued
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json()["token_type"] == "Bearer"
        assert answer.json()["expires_in"] == 3600

    def test_a_token_acts_as_its_service_account(self, api: Api, issued: tuple[str, httpx.Response]) -> None:
        """In its organization alone, and with the role of a member."""
        service = caller(api.server, issued[1].json()["access_token"], api.organization_id)
        assert [one["id"] for one in service.ok("GET", "/organizations")["items"]] == [api.organization_id]
        assert service.zone().id
        service.refused(403, "PATCH", f"/organizations/{api.organization_id}", {"name": "x"})

    def test_a_token_ends_with_its_credential(self, api: Api, issued: tuple[str, httpx.Response]) -> None:
        """The credential says when it was used last; once it is deleted its tokens are refused."""
        path, answer = issued
        service = caller(api.server, answer.json()["access_token"], api.organization_id)
        service.ok("GET", "/zones")
        assert api.ok("GET", path)["last_used_at"]
        api.ok("DELETE", path)
        service.refused(401, "GET", "/zones")

    @pytest.mark.parametrize(
        ("form", "status", "error"),
        [
            ({"grant_type": "client_credentials"}, 401, "invalid_client"),
            (
                {"grant_type": "client_credentials", "client_id": "x", "client_secret": "y"},
                401,
                "invalid_client",
            ),
            (
                {"grant_type": "password", "client_id": "x", "client_secret": "y"},
                400,
                "unsupported_grant_type",
            ),
            ({"client_id": "x", "client_secret": "y"}, 400, "invalid_request"),
        ],
    )
    def test_refusals_are_oauths(self, api: Api, form: dict[str, str], status: int, error: str) -> None:
        """The token endpoint answers in OAuth's words."""
        answer = httpx.post(f"{api.server.url}/service-account-token", data=form, trust_env=False)
        assert answer.status_code == status
        assert answer.json()["error"] == error

    def test_a_wrong_secret_by_basic_is_challenged(self, api: Api) -> None:
        """HTTP Basic that fails asks for HTTP Basic; two ways at once are refused."""
        _, credential = self._credential(api)
        url = f"{api.server.url}/service-account-token"
        wrong = b64encode(f"{credential['client_id']}:nope".encode()).decode()
        form = {"grant_type": "client_credentials"}
        answer = httpx.post(url, data=form, headers={"Authorization": f"Basic {wrong}"}, trust_env=False)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        twice = httpx.post(
            url,
            data={**form, "client_secret": "x"},
            headers={"Authorization": f"Basic {wrong}"},
            trust_env=False,
        )
        assert twice.json()["error"] == "invalid_request"

    @pytest.mark.parametrize("altered", ["signature", "no signature", "four parts", "cut short"])
    def test_an_altered_token_is_refused(self, api: Api, altered: str) -> None:
        """The token as it was issued opens the management API; anything that is nearly it is 401."""
        _, credential = self._credential(api)
        token = self._token(api, credential)
        head, payload, signature = token.split(".")
        sent = {
            "signature": f"{head}.{payload}.{signature[:-4]}AAAA",
            "no signature": f"{head}.{payload}",
            "four parts": f"{token}.x",
            "cut short": token[:-1],
        }[altered]
        caller(api.server, token, api.organization_id).ok("GET", "/zones")
        caller(api.server, sent, api.organization_id).refused(401, "GET", "/zones")

    @staticmethod
    def _credential(api: Api) -> tuple[dict[str, str], dict[str, str]]:
        base = f"/organizations/{api.organization_id}/service-accounts"
        account = api.ok("POST", base, {"name": api.named("ci")})
        return account, api.ok("POST", f"{base}/{account['id']}/credentials", {"name": "key"})

    @staticmethod
    def _token(api: Api, credential: dict[str, str]) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": credential["client_id"],
            "client_secret": credential["client_secret"],
        }
        answer = httpx.post(f"{api.server.url}/service-account-token", data=form, trust_env=False)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


@pytest.mark.usefixtures("one_window")
def test_guessing_a_secret_is_slowed_down(api: Api) -> None:
    """After twenty failures a client id has to wait, from the address that guessed."""
    url = f"{api.server.url}/service-account-token"
    form = {"grant_type": "client_credentials", "client_id": new_id(), "client_secret": "guess"}
    with httpx.Client(trust_env=False) as client:
        answers = [client.post(url, data=form).status_code for _ in range(21)]
        assert answers[:20] == [401] * 20
        blocked = client.post(url, data=form)
    assert 429 in (answers[20], blocked.status_code)
