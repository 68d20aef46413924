"""The guarded client over TLS: connected to a checked address, verified by the name in the URL."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.adapters.outbound import Outbound, OutboundFailed


@pytest.fixture
def certificate(tmp_path):
    """A file with key and certificate of `good.test`, its own trust anchor."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "good.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("good.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "good.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


async def local(host, port):
    return ["127.0.0.1"]


@pytest.mark.threat(7)
@pytest.mark.parametrize(
    ("host", "accepted"), [("good.test", True), ("other.test", False), ("127.0.0.1", False)]
)
async def test_the_certificate_must_be_the_names(certificate, host, accepted):
    """The name decides which certificate is right, not the address that is connected to."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=certificate)
    outbound = Outbound(allow_private_addresses=True, resolve=local, ssl_context=trusting)
    try:
        if accepted:
            assert (await outbound.get_json(f"https://{host}:{port}/")).json == {}
        else:
            with pytest.raises(OutboundFailed):
                await outbound.get_json(f"https://{host}:{port}/")
    finally:
        await outbound.aclose()
        server.close()
