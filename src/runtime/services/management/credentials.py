"""Application credentials: made with a secret that is shown once, or with none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, Entity, Kind, Verb
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.values import CredentialType
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit import Unit
from runtime.storage.sql import entities as storage


async def create(unit: Unit, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a credential. The password of a `password` one stands in `unit.shown_once`, nowhere else."""
    scope = await entities.scope_of(unit, APPLICATION_CREDENTIAL, parents)
    entities.require(unit, APPLICATION_CREDENTIAL, Verb.CREATE)
    await entities.require_in_zone(
        unit, APPLICATION, scope["zone_id"], [body["application_id"]], field="application_id"
    )
    application = await storage.get(unit.conn, APPLICATION, body["application_id"], within=scope)
    application = cast(Application, application)
    entities.refuse_platform_owned(APPLICATION, application)
    decided: dict[str, Any] = {"identifier": body.get("identifier") or new_id()}
    if body["type"] == CredentialType.PASSWORD:
        password = new_secret()
        decided["secret_hash"] = unit.parts.hasher.hash(password)
    slug = await entities.free_slug(unit, APPLICATION_CREDENTIAL, scope, application.slug)
    made = await entities.new_entity(unit, APPLICATION_CREDENTIAL, scope, body, slug=slug, **decided)
    await entities.add(unit, APPLICATION_CREDENTIAL, made)
    if body["type"] == CredentialType.PASSWORD:
        unit.shown_once[made.id] = {"password": password}
    return made


async def list_of_application(unit: Unit, parents: Parents, application_id: str, query: ListQuery) -> Listed:
    """One page of the credentials of one application."""
    await entities.retrieve(unit, APPLICATION, parents, application_id)
    filters = {**query.filters, "application_id": (application_id,)}
    return await entities.list_(unit, APPLICATION_CREDENTIAL, parents, replace(query, filters=filters))
