"""`application_type` of a resource: which redirect URIs the application that provides it may have.

A `native` application is answered on the user's own machine: at `localhost`, or at a scheme of its own. A
`web` one is answered at https, on a host of its own. Spec: service interface, Resource.
"""

from functools import partial

from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import redirect_uris
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import resources as storage
from runtime.storage.sql.resources import ProvidedResource

_TYPE = "application_type"
_ONE_BY_ONE = 4


def check_resource_when_finished(unit: UnitOfWork, before: Resource | None, after: Resource) -> None:
    """Check a resource when the unit finishes, if it gets another type, or another application provides it.

    Until then a changeset may change the application as well. What does not fit from before stays, and such a
    resource can be changed in other members.
    """
    if after.application_id is None:
        return
    if before is None or _provision(before) != _provision(after):
        check = partial(_require_fitting_type, unit, after.zone_id, after.id)
        unit.defer_check(RESOURCE, after.id, _TYPE, check)


def check_application_when_finished(unit: UnitOfWork, before: Application, after: Application) -> None:
    """Check an application when the unit finishes, if it gets other redirect URIs: as for a resource."""
    if _redirect_uris(before) != _redirect_uris(after):
        check = partial(_require_fitting_uris, unit, after.zone_id, after.id)
        unit.defer_check(APPLICATION, after.id, _TYPE, check)


def _provision(resource: Resource) -> tuple[str | None, str]:
    return resource.application_id, resource.application_type


def _redirect_uris(application: Application) -> list[str]:
    oauth2 = application.protocols.oauth2 if application.protocols else None
    return (oauth2.redirect_uris if oauth2 else None) or []


async def _require_fitting_type(unit: UnitOfWork, zone_id: str, resource_id: str) -> None:
    """Raise ValidationFailed unless the type of a resource fits the application that provides it."""
    for found in await _provided(unit, zone_id, resource_id=resource_id):
        if (uri := _misfit(found)) is not None:
            raise ValidationFailed.of(
                _TYPE,
                f"`{found.application_type}` does not fit the redirect URI `{uri}` of the application that"
                f" provides the resource, which {redirect_uris.TYPES[found.application_type]}",
            )


async def _require_fitting_uris(unit: UnitOfWork, zone_id: str, application_id: str) -> None:
    """Raise ValidationFailed unless an application's redirect URIs fit each resource that it provides."""
    for found in await _provided(unit, zone_id, application_id=application_id):
        if (uri := _misfit(found)) is not None:
            place = f"protocols.oauth2.redirect_uris[{found.redirect_uris.index(uri)}]"
            message = (
                f"`{uri}` does not fit the resource `{found.identifier}`, which this application provides:"
                f" its `application_type` is `{found.application_type}`, which"
                f" {redirect_uris.TYPES[found.application_type]}"
            )
            raise ValidationFailed(
                f"`{place}` {message}", problems=[Problem(ValidationFailed.code, message, place)]
            )


def _misfit(found: ProvidedResource) -> str | None:
    """The first redirect URI that does not fit the type; None when all do."""
    unfit = (uri for uri in found.redirect_uris if not redirect_uris.fits(uri, found.application_type))
    return next(unfit, None)


async def _provided(
    unit: UnitOfWork, zone_id: str, *, resource_id: str | None = None, application_id: str | None = None
) -> list[ProvidedResource]:
    """One resource, or those of one application; the zone is read once where many are looked at."""
    known = unit.cache.provided_resources.get(zone_id)
    if known is None and len(unit.deferred_checks) < _ONE_BY_ONE:
        return await storage.provided(
            unit.conn, zone_id, resource_id=resource_id, application_id=application_id
        )
    if known is None:
        known = unit.cache.provided_resources[zone_id] = await storage.provided(unit.conn, zone_id)
    return [each for each in known if resource_id == each.id or application_id == each.application_id]
