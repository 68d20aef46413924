"""References from policies to entities (`User::"a@example.com"`), compared with the entities of the zone.

A rule about a name that nobody has never matches, so a misspelt `forbid` protects nothing. It is valid all
the same, and may be meant: a policy can come before what it names. `absent_names` says so.
"""

from collections.abc import Iterable

from runtime.adapters.cedar_tokenizer import NamedEntity, entities_named, unescaped
from runtime.domain.kinds import APPLICATION, GROUP, RESOURCE, ROLE, USER, USER_AGENT, Kind, Verb
from runtime.domain.kinds.policy import Policy
from runtime.services.management import entities
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import changes, directory
from runtime.storage.sql.bindings import ActivePolicyText

# Entity type -> the kinds whose entities are called so. A client that registered itself is an application
# to policies.
KINDS: dict[str, tuple[Kind, ...]] = {
    USER.name: (USER,),
    GROUP.name: (GROUP,),
    ROLE.name: (ROLE,),
    APPLICATION.name: (APPLICATION, USER_AGENT),
    RESOURCE.name: (RESOURCE,),
}

Name = tuple[str, str]  # entity type, id


def zone_entities_named(text: str) -> list[NamedEntity]:
    """The entities of a zone in a valid policy text, without actions, which the schema declares."""
    return [each for each in entities_named(text) if each.type in KINDS]


def written(name: Name) -> str:
    """A name as policies write it."""
    type_, id_ = name
    escaped = id_.replace("\\", "\\\\").replace('"', '\\"')
    return f'{type_}::"{escaped}"'


def said_absent(policy: Policy | ActivePolicyText) -> set[Name]:
    """The names of which a policy says that the zone need not have them."""
    pairs = (each.partition("::") for each in policy.absent_names or ())
    return {(type_, unescaped(literal)) for type_, _, literal in pairs}


async def existing(unit: UnitOfWork, zone_id: str, names: Iterable[Name]) -> set[Name]:
    """Those of the names that something in the zone has; one question for each kind. Raises Forbidden."""
    ids: dict[str, set[str]] = {}
    for type_, id_ in names:
        if "\0" not in id_:  # nothing is called so, and PostgreSQL takes no question about it
            ids.setdefault(type_, set()).add(id_)
    found: set[Name] = set()
    for type_, wanted in ids.items():
        for kind in KINDS[type_]:
            await entities.require_in(unit, kind, Verb.LIST, zone_id)
            handles = await changes.handles(unit.conn, kind, sorted(wanted), zone_id=zone_id)
            found |= {(type_, handle) for handle in handles}
    return found


async def identifiers_by_address(
    unit: UnitOfWork, zone_id: str, unknown_names: Iterable[Name]
) -> dict[Name, str]:
    """Those of the unknown names that are a user's e-mail address, and the identifier of that user."""
    by_address = {
        id_.lower(): (type_, id_) for type_, id_ in unknown_names if type_ == USER.name and "@" in id_
    }
    if not by_address:
        return {}
    await entities.require_in(unit, USER, Verb.LIST, zone_id)
    found = await directory.identifiers_by_email(unit.conn, by_address, zone_id=zone_id)
    return {by_address[address]: identifier for address, identifier in found.items()}


async def unknown(unit: UnitOfWork, policy: Policy, text: str) -> list[str]:
    """The names in a text that nothing in the policy's zone has, as policies write them."""
    names = {(each.type, each.id) for each in zone_entities_named(text)} - said_absent(policy)
    return sorted(map(written, names - await existing(unit, policy.zone_id, names)))
