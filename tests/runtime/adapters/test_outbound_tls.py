"""The guarded client over TLS: connected to a checked address, verified by the name in the URL."""

import asyncio

import pytest
from tests.support.certificates import self_signed, serving, trusting

from runtime.adapters.outbound import Outbound, OutboundFailed


@pytest.fixture
def certificate(tmp_path):
    """A file with key and certificate of `good.test`, its own trust anchor."""
    return self_signed(tmp_path / "good.pem", "good.test")


def local(host, port):
    return ["127.0.0.1"]


@pytest.mark.threat("7ae")
@pytest.mark.parametrize(
    ("host", "accepted"), [("good.test", True), ("other.test", False), ("127.0.0.1", False)]
)
async def test_the_certificate_must_be_the_names(certificate, host, accepted):
    """The name decides which certificate is right, not the address that is connected to."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving(certificate))
    port = server.sockets[0].getsockname()[1]
    outbound = Outbound(allow_private_addresses=True, resolve=local, trust=lambda: trusting(certificate))
    try:
        if accepted:
            assert (await outbound.get_json(f"https://{host}:{port}/")).json == {}
        else:
            with pytest.raises(OutboundFailed):
                await outbound.get_json(f"https://{host}:{port}/")
    finally:
        await outbound.aclose()
        server.close()
