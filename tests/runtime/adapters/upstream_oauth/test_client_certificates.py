"""The zone authenticates at a provider with a certificate on the TLS connection (RFC 8705)."""

import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import self_signed, serving, trusting
from tests.support.scripted_provider import ScriptedProvider, scripted_provider

from runtime.adapters.client_certificates import ClientCertificate, InvalidCertificate
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import Outbound
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome
from runtime.adapters.upstream_oauth.token_response import RefusalKind, UpstreamRefusal, UpstreamTokens
from runtime.domain.kinds.values import TokenEndpointAuthMethod

NOW = datetime.now(UTC)
METHODS = [TokenEndpointAuthMethod.TLS_CLIENT_AUTH, TokenEndpointAuthMethod.SELF_SIGNED_TLS_CLIENT_AUTH]


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return self_signed(tmp_path / "server.pem", "bank.test")


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """The certificate of the zone, with its key."""
    return self_signed(tmp_path / "zone.pem", "zone.test")


@pytest.fixture
def pem(ours: Path) -> str:
    """The client secret that holds it."""
    return ours.read_text()


@pytest.fixture
def strangers(tmp_path: Path) -> str:
    return self_signed(tmp_path / "stranger.pem", "zone.test").read_text()


@pytest.fixture
def provider(server: Path, ours: Path) -> Iterator[ScriptedProvider]:
    with scripted_provider(tls=serving(server, clients=ours), host="bank.test") as running:
        running.answers({"access_token": "at", "token_type": "Bearer", "expires_in": 60})
        yield running


@pytest.fixture
async def client(server: Path) -> AsyncIterator[UpstreamOAuthClient]:
    def local(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    outbound = Outbound(allow_private_addresses=True, resolve=local, trust=lambda: trusting(server))
    yield UpstreamOAuthClient(outbound, clock=lambda: NOW)
    await outbound.aclose()


def settings(provider: ScriptedProvider, secret: str | None, **changes: Any) -> ProviderSettings:
    known: dict[str, Any] = {
        "issuer": provider.url,
        "client_id": "zone",
        "client_secret": secret,
        "partition": "z1",
        "provider_id": "p1",
        "authorization_endpoint": f"{provider.url}/authorize",
        "token_endpoint": f"{provider.url}/token",
        "revocation_endpoint": f"{provider.url}/revoke",
        "token_endpoint_auth_method": METHODS[0],
    }
    return ProviderSettings(**(known | changes))


async def redeem(client: UpstreamOAuthClient, to: ProviderSettings) -> UpstreamTokens | UpstreamRefusal:
    return await client.redeem_code(to, code="c", redirect_uri="https://zone.test/cb", code_verifier=None)


def der_of(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])


@pytest.mark.standard("RFC 8705")
@pytest.mark.parametrize("method", METHODS)
async def test_the_connection_shows_the_certificate(
    provider: ScriptedProvider, client: UpstreamOAuthClient, pem: str, method: TokenEndpointAuthMethod
) -> None:
    """The request itself has the client id and nothing secret. Spec: RFC 8705 section 2."""
    to = settings(provider, pem, token_endpoint_auth_method=method)

    tokens = await redeem(client, to)
    refreshed = await client.refresh(to, refresh_token="r1")
    revoked = await client.revoke(to, token="r1", token_type_hint="refresh_token")

    assert isinstance(tokens, UpstreamTokens)
    assert isinstance(refreshed, UpstreamTokens)
    assert revoked.outcome is RevocationOutcome.REVOKED
    assert [each.path for each in provider.received] == ["/token", "/token", "/revoke"]
    assert {each.certificate for each in provider.received} == {der_of(pem)}
    assert {each.members["client_id"] for each in provider.received} == {"zone"}
    assert not any(
        {"client_secret", "client_assertion"} & set(each.members) or "authorization" in each.headers
        for each in provider.received
    )


@pytest.mark.standard("RFC 8705")
async def test_without_it_the_provider_does_not_talk(
    provider: ScriptedProvider, client: UpstreamOAuthClient, pem: str, strangers: str
) -> None:
    """Nor with that of somebody else; connections of other requests never show one."""
    assert isinstance(await redeem(client, settings(provider, pem)), UpstreamTokens)

    basic = settings(provider, "s3cret", token_endpoint_auth_method=None)
    refused = [await redeem(client, basic), await redeem(client, settings(provider, strangers))]

    assert [each.code for each in refused if isinstance(each, UpstreamRefusal)] == ["unreachable"] * 2
    assert len(provider.received) == 1


@pytest.mark.standard("RFC 8705")
async def test_published_addresses_for_certificates_come_first(
    provider: ScriptedProvider, client: UpstreamOAuthClient, pem: str, server: Path
) -> None:
    """Those that are configured come before them. Spec: RFC 8705 section 5."""
    metadata = {
        "authorization_endpoint": f"{provider.url}/authorize",
        "token_endpoint": f"{provider.url}/token",
        "mtls_endpoint_aliases": {"token_endpoint": f"{provider.url}/mtls/token"},
    }
    with scripted_provider(tls=serving(server), host="bank.test") as public:
        public.answers({"issuer": public.url, **metadata})
        found = {"issuer": public.url, "authorization_endpoint": None, "revocation_endpoint": None}
        await redeem(client, settings(provider, pem, **found, token_endpoint=None))
        await redeem(client, settings(provider, pem, **found))

    assert [each.path for each in provider.received] == ["/mtls/token", "/token"]


class TestSecret:
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda pem: "s3cret", "a certificate and its private key, as PEM"),
            (lambda pem: pem[: pem.index("-----BEGIN CERTIFICATE")], "a certificate and its private key"),
            (lambda pem: pem[pem.index("-----BEGIN CERTIFICATE") :], "a certificate and its private key"),
            (lambda pem: pem[:-60] + "-----END CERTIFICATE-----\n", "a certificate and its private key"),
        ],
        ids=["a password", "no certificate", "no key", "cut"],
    )
    async def test_is_the_certificate_and_its_key(
        self, provider: ScriptedProvider, client: UpstreamOAuthClient, pem: str, change: Any, why: str
    ) -> None:
        """Administrators are told what it has to be, and nothing is sent."""
        assert isinstance(await redeem(client, settings(provider, pem)), UpstreamTokens)

        refused = await redeem(client, settings(provider, change(pem)))

        assert refused == UpstreamRefusal(RefusalKind.MISCONFIGURED, "not_configured")
        assert isinstance(refused, UpstreamRefusal)
        assert why in refused.explanation
        assert len(provider.received) == 1

    @pytest.mark.parametrize(
        ("made", "why"),
        [
            ({"days": (-2, -1)}, "not valid at this time"),
            ({"days": (1, 2)}, "not valid at this time"),
            ({"password": b"p"}, "a certificate and its private key"),
        ],
        ids=["expired", "not yet", "encrypted"],
    )
    def test_is_valid_and_readable(self, tmp_path: Path, made: dict[str, Any], why: str) -> None:
        """An encrypted key has nobody who would enter its password."""
        assert ClientCertificate.read(self_signed(tmp_path / "a.pem", "zone.test").read_text(), now=NOW)

        with pytest.raises(InvalidCertificate, match=why):
            ClientCertificate.read(self_signed(tmp_path / "b.pem", "zone.test", **made).read_text(), now=NOW)

    def test_key_belongs_to_the_certificate(self, tmp_path: Path) -> None:
        """The certificate comes first, then those that it was signed with."""
        one, other = (self_signed(tmp_path / name, "zone.test").read_text() for name in ("a.pem", "b.pem"))
        cut = one.index("-----BEGIN CERTIFICATE")
        assert ClientCertificate.read(one[:cut] + one[cut:] + other[cut:], now=NOW)

        with pytest.raises(InvalidCertificate, match="another certificate"):
            ClientCertificate.read(one[:cut] + other[other.index("-----BEGIN CERTIFICATE") :], now=NOW)

    async def test_is_shown_on_tls_alone(self, client: UpstreamOAuthClient, pem: str) -> None:
        """Plain HTTP, for development, has nothing to show it on."""
        with scripted_provider() as plain:
            plain.answers({"access_token": "at", "token_type": "Bearer"})
            basic = settings(plain, "s3cret", token_endpoint_auth_method=None)
            assert isinstance(await redeem(client, basic), UpstreamTokens)

            refused = await redeem(client, settings(plain, pem))

            assert isinstance(refused, UpstreamRefusal)
            assert "https" in refused.explanation
            assert len(plain.received) == 1

    @pytest.mark.parametrize(
        "method",
        [None, *(each for each in TokenEndpointAuthMethod if each.value.startswith("client_secret"))],
    )
    async def test_is_never_sent_as_a_password(
        self, client: UpstreamOAuthClient, pem: str, method: TokenEndpointAuthMethod | None
    ) -> None:
        """Whoever changes the method does not hand the private key to the provider."""
        with scripted_provider() as plain:
            plain.answers({"access_token": "at", "token_type": "Bearer"})
            secret = settings(plain, "s" * 32, token_endpoint_auth_method=method)
            assert isinstance(await redeem(client, secret), UpstreamTokens)

            refused = await redeem(client, settings(plain, pem, token_endpoint_auth_method=method))

            assert isinstance(refused, UpstreamRefusal)
            assert "certificate" in refused.explanation
            assert len(plain.received) == 1

    def test_is_not_in_a_representation(self, pem: str) -> None:
        """Of the settings, the certificate or its context."""
        certificate = ClientCertificate.read(pem, now=NOW)
        shown = repr(certificate) + repr(certificate.context(ssl.create_default_context))
        assert pem[40:80] not in shown


async def test_validity_is_that_of_the_moment(provider: ScriptedProvider, server: Path, pem: str) -> None:
    """A certificate that has expired since is not sent any more: the log says what is to be renewed."""
    times = [NOW, NOW + timedelta(2)]

    def local(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    outbound = Outbound(allow_private_addresses=True, resolve=local, trust=lambda: trusting(server))
    client = UpstreamOAuthClient(outbound, clock=lambda: times[0])
    try:
        assert isinstance(await redeem(client, settings(provider, pem)), UpstreamTokens)
        times.pop(0)

        refused = await redeem(client, settings(provider, pem))

        assert isinstance(refused, UpstreamRefusal)
        assert "not valid at this time" in refused.explanation
    finally:
        await outbound.aclose()
