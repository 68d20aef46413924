"""Conflicts between resource identifiers: equal URLs, and URLs beneath the prefix of another team's resource.

Policies hold for the resource that a request is found to mean. Whoever adds one that is spelt like another's,
or lies beneath another's prefix, takes requests out of what policies say of that one.
"""

from dataclasses import dataclass

from runtime.domain.errors import Conflict, Problem
from runtime.domain.kinds import RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resource_overlaps import ResourceOverlaps
from runtime.domain.oauth.resources import host_of
from runtime.services.management import credential_scope
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import resources as storage

_ONE_BY_ONE = 4
_CONFLICTS = "conflicts"


def check_when_finished(unit: UnitOfWork, before: Resource | None, after: Resource) -> None:
    """Check a resource for conflicts when the unit finishes, if its identifier or `prefix` changes.

    Until then other operations may free identifiers. Conflicts that are older than this rule stay, and such
    resources can be changed in other members.
    """
    noted = unit.deferred_check(RESOURCE, after.id, _CONFLICTS)
    is_new = before is None or before.identifier != after.identifier
    is_new = is_new or (isinstance(noted, _ConflictCheck) and noted.is_new)
    if is_new or (before is not None and before.prefix != after.prefix):
        unit.defer_check(RESOURCE, after.id, _CONFLICTS, _ConflictCheck(unit, after, is_new))


@dataclass(frozen=True)
class _ConflictCheck:
    """The check of one resource, run under the organization's lock, so the answer stays true.

    Attributes:
        is_new: its identifier is new.
    """

    unit: UnitOfWork
    resource: Resource
    is_new: bool

    async def __call__(self) -> None:
        """Raises: Conflict for an equal URL; Forbidden beneath a prefix of another configuration's."""
        overlaps = await _overlaps(self.unit, self.resource)
        one = overlaps.find(self.resource.id)
        if one is None:  # no URL, or gone by now
            return
        if self.is_new and (twin := overlaps.find_equal(one)) is not None:
            message = (
                f"`{one.identifier}` is the same URL as `{twin.identifier}` of another resource:"
                " identifiers are compared as normalized URLs and are unique in a zone"
            )
            raise Conflict(message, problems=[Problem(Conflict.code, message, "identifier")])
        if (around := overlaps.find_prefix(one)) is not None:
            why = f"`{one.identifier}` is beneath the prefix `{around.identifier}`: "
            await credential_scope.refuse_others_of(self.unit, RESOURCE, around.id, why=why)


async def _overlaps(unit: UnitOfWork, resource: Resource) -> ResourceOverlaps:
    """The resources of the same host; of the whole zone, once, where many are looked at."""
    if (known := unit.cache.resource_overlaps.get(resource.zone_id)) is not None:
        return known
    if not (host := host_of(resource.identifier)):
        return ResourceOverlaps(())
    if len(unit.deferred_checks) < _ONE_BY_ONE:
        return ResourceOverlaps(await storage.placed(unit.conn, resource.zone_id, beginning=host))
    found = ResourceOverlaps(await storage.placed(unit.conn, resource.zone_id))
    unit.cache.resource_overlaps[resource.zone_id] = found
    return found
