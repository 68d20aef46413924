"""Compares the address that the service listens on with the one that it tells its callers."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from runtime.cli.diagnosis import Check, Finding, warning
from runtime.settings import Settings


def port_mismatch(settings: Settings) -> Finding | None:
    """The warning that nothing answers at the public URL; None where that is not known.

    Only two loopback addresses with different ports are certain to be a mistake in setting up one machine:
    with https, or any other address, a proxy stands in front. Port 0 takes a free port.
    """
    host, _, port = settings.listen.rpartition(":")
    try:
        public = urlsplit(settings.public_url)
        public_port = public.port or 80
        listening = int(port)
    except ValueError:
        return None  # `zoned serve` refuses it
    both_loopback = _is_loopback(host.strip("[]") or "127.0.0.1") and _is_loopback(public.hostname or "")
    if public.scheme != "http" or not both_loopback or listening in (0, public_port):
        return None
    return warning(
        Check.ADDRESSES,
        f"ZONED_PUBLIC_URL `{settings.public_url}` has the port {public_port}, and ZONED_LISTEN"
        f" `{settings.listen}` the port {listening}: callers are sent to a port on which the service does not"
        " listen",
        "set both to the same port before `zoned init`, as the issuer of a zone keeps its address; if a proxy"
        " of your own forwards the one port to the other, ignore this",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
