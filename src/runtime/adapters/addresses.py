"""IP addresses that an outbound request may connect to: globally reachable ones only (SSRF protection)."""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")
_DUMMY = ipaddress.IPv4Network("192.0.0.0/24")
_RELAY = ipaddress.IPv4Network("192.88.99.0/24")


def is_public(text: str) -> bool:
    """Tell whether an address is global unicast, and any IPv4 address inside it is too.

    An IPv6 address can carry an IPv4 one (mapped, compatible, 6to4, Teredo, NAT64), to which a gateway
    would connect.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return all(_is_global_unicast(each) for each in (address, *_inside(address)))


def _is_global_unicast(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        special = address in _DUMMY or address in _RELAY
    else:
        if address.ipv4_mapped is not None or address in _NAT64:
            return True  # the address inside decides
        special = address in _NAT64_LOCAL or address in _SITE_LOCAL or address in _COMPATIBLE
        special = special or address.scope_id is not None
    return address.is_global and not special and not address.is_multicast and not address.is_reserved


def _inside(address: Address) -> Iterator[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
