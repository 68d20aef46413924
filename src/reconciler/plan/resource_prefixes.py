"""Longest-prefix matching of resources: which addresses below a prefix belong to it, before and after a plan.

A request is for the resource with its exact identifier, otherwise for the one with the longest prefix. So a
new resource below a prefix takes requests from it, and with them the policies that apply. Spec: zone
interface, section 6, rule 3.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from .zone_state import Item, ZoneState

RESOURCE = "Resource"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]+)([^#]*)\Z", re.DOTALL)
_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
_BOUNDARY = re.compile(r"[/?]")
_BENEATH = "/*"

Resources = Mapping[str, bool]  # identifier -> whether it is a prefix
Reached = Mapping[str, frozenset[Item]]  # identifier -> addresses that belong to it; `/*` is all below


def reached_by_prefix(before: ZoneState, after: ZoneState) -> tuple[Reached, Reached]:
    """The addresses that belong to each prefix, before and after: those that a plan concerns."""
    former, now = _resources(before), _resources(after)
    concerned = {identifier for identifier, _ in former.items() ^ now.items()}
    if not concerned or not (any(former.values()) or any(now.values())):
        return {}, {}
    addresses = concerned | {
        f"{each.rstrip('/')}{_BENEATH}" for each in concerned if former.get(each) or now.get(each)
    }
    return _found(former, addresses), _found(now, addresses)


def exempt_from_prefix(before: ZoneState, after: ZoneState) -> Iterator[tuple[str, list[str]]]:
    """New prefixes, with the keys of existing resources below each, which it does not cover."""
    former, now = _resources(before), _resources(after)
    new = {each for each, prefix in now.items() if prefix and not former.get(each)}
    if not new:
        return
    prefixes = {_compared(each): each for each, prefix in now.items() if prefix}
    found: dict[str, list[str]] = defaultdict(list)
    for identifier in now.keys() & former.keys():
        key = _compared(identifier)
        around = next((prefixes[each] for each in _shorter(key) if each in prefixes and each != key), None)
        if around in new:
            found[around].append(after.by_name[RESOURCE, identifier])
    yield from sorted(found.items())


def _resources(state: ZoneState) -> Resources:
    things = (thing for thing in state.things.values() if thing.kind == RESOURCE)
    return {thing.handle: thing.spec.get("prefix") is True for thing in things if thing.handle is not None}


def _found(resources: Resources, addresses: set[str]) -> Reached:
    exact = {_compared(identifier) for identifier in resources}
    prefixes = {_compared(identifier): identifier for identifier, prefix in resources.items() if prefix}
    found: dict[str, set[Item]] = defaultdict(set)
    for address in addresses:
        key = _compared(address)
        if key in exact:
            continue
        around = next((prefixes[each] for each in _shorter(key) if each in prefixes), None)
        if around is not None:
            found[around].add(("", address))
    return {identifier: frozenset(items) for identifier, items in found.items()}


def _compared(identifier: str) -> str:
    """An identifier as the server compares it, but for escapes: manifests seldom have any."""
    match = _URL.match(identifier)
    if match is None:
        return identifier
    scheme, host = match[1].lower(), match[2].lower()
    rest = match[3][1:] if match[3] == "/" or match[3].startswith("/?") else match[3]
    return f"{scheme}://{host.removesuffix(_PORTS.get(scheme, '-'))}{rest}"


def _shorter(key: str) -> Iterator[str]:
    match = _URL.match(key)
    if match is None:
        return
    for at in reversed([found.start() for found in _BOUNDARY.finditer(key, match.end(2))]):
        yield key[: at + 1]
        yield key[:at]
