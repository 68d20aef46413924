"""Libraries of other makes sign users in with the settings that docs/clients.md gives for them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import msal
import pytest
from tests.support.certificates import self_signed, trusting
from tests.support.client_table import Library, libraries
from tests.support.factories import company_of
from tests.support.oauth_site import Answer, Browser, Page, Site, claims
from tests.support.server import serve

from runtime.domain.kinds import ZONE, Verb
from runtime.domain.kinds.resource import Resource

pytestmark = pytest.mark.long

PROGRAMS = Path(__file__).resolve().parents[2] / "clients"
LIBRARIES = {each.name: each for each in libraries()}
TRIED = [name for name, each in LIBRARIES.items() if each.tried.partition(":")[0] == "yes"]
NAMING = [name for name in TRIED if LIBRARIES[name].resource]
REFUSING_HTTP = [name for name in TRIED if LIBRARIES[name].refuses_http or LIBRARIES[name].http]
API = "https://api.acme.example"
# How a parameter is added to the authorization request of a library that then asks userinfo.
PARAMETER = {
    "mozilla-django-oidc": {"OIDC_AUTH_REQUEST_EXTRA_PARAMS": {"resource": API}},
    "python-social-auth": {"SOCIAL_AUTH_OIDC_AUTH_EXTRA_ARGUMENTS": {"resource": API}},
}
# What programs end with: an error of their HTTP library, and of the library that refuses an http issuer.
REFUSED_BY_USERINFO = "401 Client Error: Unauthorized for url"
REFUSES_HTTP = {
    "requests-oauthlib": "OAuth 2 MUST utilize https",
    "MSAL": "authority_uri_insecure",
    "MSAL for Python": "should consist of an https url",
}
SIGNED_OUT = "https://app.example/signed-out"
APACHE_MODULE = Path("/usr/lib/apache2/modules/mod_auth_openidc.so")


def program(name: str) -> tuple[str, ...]:
    """The program of a library, with what runs it."""
    file = f"with_{re.sub('[-. ]', '_', name.lower())}"
    in_python = PROGRAMS / f"{file}.py"
    if in_python.exists():
        return sys.executable, str(in_python)
    return "node", str(PROGRAMS / "node" / f"{file}.mjs")


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs for Node.js beside the packages that their lock names."""
    for each in ("node", "npm"):
        if shutil.which(each) is None:
            pytest.skip(f"there is no `{each}` here: libraries for Node.js are not tried")
    folder = tmp_path_factory.mktemp("node")
    shutil.copytree(PROGRAMS / "node", folder, dirs_exist_ok=True)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install here: libraries for Node.js are not tried: {done.stderr[-500:]}")
    return folder


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a site with TLS shows."""
    return self_signed(tmp_path_factory.mktemp("tls") / "localhost.pem", "localhost")


@pytest.fixture(scope="module")
def site_with_tls(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server for libraries that refuse http."""
    with serve(tmp_path_factory.mktemp("server"), certificate=certificate) as server:
        yield Site(server, company_of(server))


@pytest.fixture
def home(name: str, site: Site, request: pytest.FixtureRequest) -> Site:
    """Where users of the library sign in: on plain http unless it refuses that."""
    if LIBRARIES[name].refuses_http:
        with_tls: Site = request.getfixturevalue("site_with_tls")
        return with_tls
    return site


@pytest.fixture
def browser(certificate: Path) -> Iterator[Browser]:
    """A browser without cookies."""
    made = Browser(trusting(certificate))
    yield made
    made.http.close()


@contextmanager
def started(name: str, settings: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """The library's program; `ask(line)` is its next answer to a line."""
    runner, file = program(name)
    if runner == "node":
        folder: Path = request.getfixturevalue("packages")
        file = str(folder / Path(file).name)
    if name == "mod_auth_openidc" and not (shutil.which("apache2") and APACHE_MODULE.exists()):
        pytest.skip("there is no Apache with mod_auth_openidc here")
    trusted = str(request.getfixturevalue("certificate"))
    environment = {**os.environ, "REQUESTS_CA_BUNDLE": trusted, "NODE_EXTRA_CA_CERTS": trusted}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [runner, file, json.dumps(settings)]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(line: str = "") -> dict[str, Any]:
            if line:
                print(line, file=process.stdin, flush=True)
            said = process.stdout.readline()
            if not said:
                raise AssertionError(process.stderr.read())
            told: dict[str, Any] = json.loads(said)
            return told

        try:
            yield ask
        finally:
            process.stdin.close()  # the program ends with its lines, and what it has started with it
            try:
                process.wait(20)
            finally:
                process.kill()


def prepared(site: Site, library: Library, *, default: bool = False) -> tuple[dict[str, str], Resource]:
    """A zone with a user and the application of the library: what its settings are filled with."""
    zone = site.zone()
    site.user(zone)
    resource = site.run(site.company.resource(zone, API, scopes=["read"]))
    if default:
        patch = {"default_resource_id": resource.id}
        site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))
    redirect_uri = f"https://app.example{library.path}"
    is_public = not any("{client_secret}" in each for each in library.settings.values())
    client = site.app(
        zone,
        public=is_public,
        dependencies=[resource],
        protocols={"oauth2": {"redirect_uris": [redirect_uri], "post_logout_redirect_uris": [SIGNED_OUT]}},
    )
    places = {
        "issuer": client.issuer,
        "issuer host": urlsplit(client.issuer).netloc,
        "client_id": client.app.client_id,
        "client_secret": client.app.secret or "",
        "redirect_uri": redirect_uri,
        "resource": API,
        "encoded resource": quote_plus(API),
    }
    return places, resource


def sign_in(
    name: str, settings: dict[str, Any], browser: Browser, request: pytest.FixtureRequest
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The parameters of the authorization request, and what the library says of the user and the token."""
    with started(name, settings, request) as ask:
        url = ask()["url"]
        answer = browser.sign_in(browser.open(url))
        return parse_qs(urlsplit(url).query), ask(answer.location)


def asked_for(name: str, settings: dict[str, Any], request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The parameters of the authorization request, which nobody follows."""
    with started(name, settings, request) as ask:
        return parse_qs(urlsplit(ask()["url"]).query)


def without_pkce(settings: Mapping[str, Any]) -> dict[str, Any]:
    """These settings without those that name PKCE, at any depth."""
    return {
        name: without_pkce(value) if isinstance(value, dict) else value
        for name, value in settings.items()
        if not re.search("pkce|code_?challenge", name, re.IGNORECASE)
        and not (isinstance(value, list) and "pkce" in value)
    }


def is_ada(told: dict[str, Any]) -> bool:
    """Whether the library knows who has signed in."""
    return bool(told.get("email") == "ada@acme.example")


@pytest.mark.parametrize("name", TRIED)
def test_signs_a_user_in_with_the_settings_of_the_table(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """With PKCE, at a zone on plain http unless the library refuses that."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)
    settings = library.filled({**library.settings, **library.http}, places)

    asked, told = sign_in(name, settings, browser, request)

    assert urlsplit(places["issuer"]).scheme == ("https" if library.refuses_http else "http")
    assert "code_challenge" in asked
    assert asked["code_challenge_method"] == ["S256"]
    assert "resource" not in asked
    assert is_ada(told)
    assert claims(told["access_token"])["aud"] == places["issuer"]


@pytest.mark.parametrize("name", TRIED)
def test_uses_pkce_without_a_setting_where_the_table_says_by_itself(
    home: Site, name: str, request: pytest.FixtureRequest
) -> None:
    """Where the table says `setting`, no challenge is sent without it; with it, the test above sees one."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)
    settings = library.filled({**library.settings, **library.http}, places)

    asked = asked_for(name, without_pkce(settings), request)

    assert asked["client_id"] == [places["client_id"]]
    assert ("code_challenge" in asked) == (library.pkce == "by itself")


@pytest.mark.parametrize("name", ["Auth.js"])
def test_auth_js_uses_no_pkce_where_its_checks_leave_it_out(
    home: Site, name: str, request: pytest.FixtureRequest
) -> None:
    """The setting of the row names it for that reason."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)
    settings = library.filled(library.settings, places)
    assert "pkce" in settings["checks"]

    asked = asked_for(name, {**settings, "checks": ["state", "nonce"]}, request)

    assert "nonce" in asked
    assert "code_challenge" not in asked


@pytest.mark.parametrize("name", REFUSING_HTTP)
def test_refuses_an_http_issuer_as_the_table_says(
    site: Site, name: str, request: pytest.FixtureRequest
) -> None:
    """Before it sends anybody there. The same program signs in with https, or with the setting for http."""
    library = LIBRARIES[name]
    places, _ = prepared(site, library)
    assert places["issuer"].startswith("http://127.0.0.1:")

    with pytest.raises(AssertionError, match=REFUSES_HTTP[name]):
        asked_for(name, library.filled(library.settings, places), request)


@pytest.mark.parametrize("name", NAMING)
def test_names_a_resource_with_the_setting_of_the_table(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """The access token is for that API, and the library still knows who has signed in."""
    library = LIBRARIES[name]
    places, resource = prepared(home, library)
    settings = library.filled({**library.settings, **library.http, **library.resource}, places)

    asked, told = sign_in(name, settings, browser, request)

    assert asked["resource"] == [API]
    assert claims(told["access_token"])["aud"] == resource.identifier
    if name != "requests-oauthlib":  # which knows of no users: it is the program that asks userinfo
        assert is_ada(told)


@pytest.mark.parametrize("name", [name for name in TRIED if name not in NAMING])
def test_who_has_no_way_to_name_a_resource_asks_userinfo_with_the_token_for_it(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """The request names the resource, but with that token the library does not learn who has signed in."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)
    settings = library.filled({**library.settings, **library.http}, places) | PARAMETER[name]

    with started(name, settings, request) as ask:
        url = ask()["url"]
        answer = browser.sign_in(browser.open(url))
        with pytest.raises(AssertionError, match=REFUSED_BY_USERINFO):
            ask(answer.location)

    assert parse_qs(urlsplit(url).query)["resource"] == [API]


@pytest.mark.parametrize("name", TRIED)
def test_a_default_resource_does_what_the_table_says(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """The access token is for the default resource: who asks userinfo with it is refused there."""
    library = LIBRARIES[name]
    places, resource = prepared(home, library, default=True)
    settings = library.filled({**library.settings, **library.http}, places)

    if library.default_resource == "fails":
        with pytest.raises(AssertionError, match=REFUSED_BY_USERINFO):
            sign_in(name, settings, browser, request)
        return
    assert library.default_resource == "works"
    _, told = sign_in(name, settings, browser, request)
    assert claims(told["access_token"])["aud"] == resource.identifier


@pytest.mark.parametrize("name", ["MSAL for Python"])
def test_msal_refreshes_by_the_scope_that_it_adds(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """It asks for `offline_access` always, and gets another access token of the same user."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)

    with started(name, library.filled(library.settings, places), request) as ask:
        first = ask(browser.sign_in(browser.open(ask()["url"])).location)
        second = ask("refresh")

    assert second["token_source"] == "identity_provider"
    assert is_ada(second)
    assert claims(second["access_token"])["sub"] == claims(first["access_token"])["sub"]
    assert second["access_token"] != first["access_token"]


@pytest.mark.parametrize(("scopes", "refreshed"), [(["email"], None), (["email", "read"], "read")])
@pytest.mark.parametrize("name", ["MSAL for Python"])
def test_msal_refreshes_a_token_for_an_api_with_the_scopes_that_the_application_names(
    home: Site,
    browser: Browser,
    name: str,
    scopes: list[str],
    refreshed: str | None,
    request: pytest.FixtureRequest,
) -> None:
    """It sends them each time, so what the first token has besides is not in the second."""
    library = LIBRARIES[name]
    places, resource = prepared(home, library)
    settings = library.filled({**library.settings, **library.resource}, places) | {"scopes": scopes}

    with started(name, settings, request) as ask:
        first = claims(ask(browser.sign_in(browser.open(ask()["url"])).location)["access_token"])
        second = claims(ask("refresh")["access_token"])

    assert (first["aud"], first["scope"]) == (resource.identifier, "read")
    assert (second["aud"], second.get("scope")) == (resource.identifier, refreshed)


@pytest.mark.parametrize("name", ["MSAL for Python"])
def test_msal_for_python_has_no_parameter_that_names_a_resource(
    home: Site, name: str, monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    """One function refuses it, the older one takes it and sends nothing: so it is added to the address."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    library = LIBRARIES[name]
    places, _ = prepared(home, library)
    application = msal.ConfidentialClientApplication(**library.filled(library.settings, places))

    with pytest.raises(TypeError, match="'resource'"):
        application.initiate_auth_code_flow(["email"], resource=API)
    with pytest.warns(DeprecationWarning, match="to initiate_auth_code_flow"):
        url = application.get_authorization_request_url(["email"], resource=API)

    assert "resource" not in parse_qs(urlsplit(url).query)


def test_msal_for_python_refuses_issuers_without_a_path() -> None:
    """Before it asks them anything: the table says so."""
    with pytest.raises(ValueError, match="a minimum of one segment in a path"):
        msal.ConfidentialClientApplication("notes", oidc_authority="https://acme.id.example")


@pytest.mark.parametrize("name", ["mod_auth_openidc"])
def test_apache_signs_a_user_out_here_and_there(
    home: Site, browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """Its page knows the user until then; afterwards it and the zone ask who it is."""
    library = LIBRARIES[name]
    places, _ = prepared(home, library)

    with started(name, library.filled(library.settings, places), request) as ask:
        begun = ask()["url"]
        told = ask(browser.sign_in(browser.open(begun)).location)
        ended = ask(SIGNED_OUT)
        returned = browser.open(ended["url"])

    assert told["user"] == f"{claims(told['access_token'])['sub']}@{places['issuer']}"
    assert ended["status"] == 302
    assert isinstance(returned, Answer)
    assert returned.location == SIGNED_OUT
    assert isinstance(browser.open(begun), Page)


def test_every_library_is_tried_or_the_table_says_why_not() -> None:
    """A program for each row that is tried, a reason in every other, and none without a row."""
    assert len(LIBRARIES) == 13
    programs = {Path(program(name)[1]) for name in TRIED}
    assert {each for each in programs if not each.exists()} == set()
    assert programs == {*PROGRAMS.glob("with_*.py"), *(PROGRAMS / "node").glob("with_*.mjs")}
    assert {each.name for each in LIBRARIES.values() if each.name not in TRIED} == {
        each.name for each in LIBRARIES.values() if each.tried.startswith("no: ")
    }


def test_every_cell_of_a_library_that_is_tried_says_what_a_test_can_tell_apart() -> None:
    """A cell with other words would be a statement that no test has looked at."""
    tried = [LIBRARIES[name] for name in TRIED]

    assert {each.pkce for each in tried} == {"setting", "by itself"}
    assert {each.naming for each in tried if not each.resource} == {"no way: asks userinfo"}
    assert {each.default_resource for each in tried} == {"works", "fails"}
    assert {each.http_issuer for each in tried if not each.http} == {"works", "refused"}


def test_the_lock_of_the_libraries_names_no_index() -> None:
    """Packages are pinned by digest, and come from the index that npm is set to."""
    lock = json.loads((PROGRAMS / "node" / "package-lock.json").read_text("utf-8"))
    found = {name: each for name, each in lock["packages"].items() if name}

    assert {name for name, each in found.items() if "integrity" not in each} == set()
    assert {name for name, each in found.items() if "resolved" in each} == set()
