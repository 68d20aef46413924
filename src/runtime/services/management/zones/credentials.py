"""Application credentials: with a secret that is shown once, without one, or a workload identity.

Two password credentials of one application may have the same client id, so that a secret is replaced without
an interruption: the second one is created, then the first expires or is deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import Conflict, Problem, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, Entity, Kind, Verb
from runtime.domain.kinds.application import (
    ANY_SUBJECT,
    MAX_SECRETS,
    ApplicationCredential,
    PasswordCredential,
    TokenCredential,
)
from runtime.domain.kinds.values import CredentialType, rfc3339
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import client_ids
from runtime.storage.sql import entities as storage

_CLIENT_IDS_ONE_BY_ONE = 5
_SUBJECT_REQUIRED = "is required; set `any_subject` to true to accept every token of the provider"


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a credential. The password of a `password` one stands in `unit.shown_once`, nowhere else.

    Raises: Conflict for a client id that another application has, another type of credential, or two secrets;
        ValidationFailed for an `expires_at` that is over.
    """
    scope = await entities.scope_of(unit, APPLICATION_CREDENTIAL, parents)
    entities.require(unit, APPLICATION_CREDENTIAL, Verb.CREATE, scope)
    await entities.require_in_zone(
        unit, APPLICATION, scope["zone_id"], [body["application_id"]], field="application_id"
    )
    application = await storage.get(unit.conn, APPLICATION, body["application_id"], within=scope)
    entities.refuse_platform_owned(APPLICATION, application)
    decided: dict[str, Any] = {"identifier": body.get("identifier") or new_id()}
    if body["type"] == CredentialType.TOKEN:
        any_subject = body.get("any_subject", True if body.get("subject") is None else None)
        decided["identifier"] = _identifier_of(body.get("subject"), any_subject=any_subject)
        decided["any_subject"] = any_subject
    if body["type"] == CredentialType.PASSWORD:
        password = new_secret()
        decided["secret_hash"] = unit.services.hasher.hash(password)
        if "identifier" in body:
            decided["slot"] = await _free_slot(unit, scope["zone_id"], body["identifier"], application.id)
    slug = await entities.free_slug(unit, APPLICATION_CREDENTIAL, scope, application.slug)
    made = await entities.new_entity(unit, APPLICATION_CREDENTIAL, scope, body, slug=slug, **decided)
    _require_future_expiry(unit, made)
    await entities.add(unit, APPLICATION_CREDENTIAL, made)
    if body["type"] == CredentialType.PASSWORD:
        unit.shown_once[made.id] = {"password": password}
    return made


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a credential. A `token` one is named after its subject; without one it is for any subject."""
    scope, before = await _for_change(unit, parents, entity_id, Verb.UPDATE)
    if isinstance(before, TokenCredential) and "subject" in patch:
        patch = {"any_subject": True if patch["subject"] is None else None, **patch}
    after = await entities.patched(unit, APPLICATION_CREDENTIAL, scope, before, patch)
    if isinstance(after, TokenCredential):
        identifier = _identifier_of(after.subject, any_subject=after.any_subject)
        after = after.model_copy(update={"identifier": identifier})
    _require_future_expiry(unit, after, before)
    return await entities.change(unit, APPLICATION_CREDENTIAL, scope, before, after)


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a credential. Raises NotFound, Forbidden."""
    scope, before = await _for_change(unit, parents, entity_id, Verb.DELETE)
    await entities.remove(unit, APPLICATION_CREDENTIAL, scope, before)
    await _close_gaps(unit, scope["zone_id"], before)


async def delete_many(unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str]) -> None:
    """Remove credentials as `delete` does."""
    scope, found = await entities.for_deletion(unit, APPLICATION_CREDENTIAL, parents, ids)
    await _refuse_platform_owned(unit, scope, found)
    await entities.remove(unit, APPLICATION_CREDENTIAL, scope, *found)
    await _close_gaps(unit, scope["zone_id"], *found)


async def _close_gaps(unit: UnitOfWork, zone_id: str, *gone: ApplicationCredential) -> None:
    with_secrets = {each.identifier for each in gone if isinstance(each, PasswordCredential)}
    await client_ids.close_gaps(unit.conn, zone_id, with_secrets)


async def _free_slot(unit: UnitOfWork, zone_id: str, client_id: str, application_id: str) -> int:
    """The slot of a new password credential: the second, where its application has one with this client id.

    Of what is somebody else's, the first is taken, which the uniqueness refuses. Raises Conflict beside two.
    """
    await unit.next_revision()  # nobody else of the organization writes between this and the insert
    if not await _may_be_taken(unit, zone_id, client_id):
        return 0
    others = await client_ids.password_credentials(unit.conn, zone_id, client_id)
    if not others or others[0].application_id != application_id:
        return 0
    if len(others) < MAX_SECRETS:
        return 1 - others[0].slot
    message = (
        f"the client id `{client_id}` already has {MAX_SECRETS} password credentials, `{others[0].id}` and "
        f"`{others[1].id}`; delete the one that is no longer used"
    )
    raise Conflict(message, problems=[Problem("conflict", message, "identifier")])


async def _may_be_taken(unit: UnitOfWork, zone_id: str, client_id: str) -> bool:
    """Tell whether to look for credentials with this client id; a unit that makes many asks once for all."""
    cache = unit.cache
    asked = cache.client_ids_asked[zone_id] = cache.client_ids_asked.get(zone_id, 0) + 1
    if asked == _CLIENT_IDS_ONE_BY_ONE:
        cache.client_ids[zone_id] = await client_ids.taken(unit.conn, zone_id)
    if (known := cache.client_ids.get(zone_id)) is None:
        return True
    may_be = client_id in known
    known.add(client_id)
    return may_be


def _require_future_expiry(
    unit: UnitOfWork, after: ApplicationCredential, before: ApplicationCredential | None = None
) -> None:
    """Raise ValidationFailed for an `expires_at` in the past, unless it is what it was.

    When a credential is deleted, this time tells what may have been issued to it.
    """
    if not isinstance(after, PasswordCredential) or after.expires_at is None:
        return
    if isinstance(before, PasswordCredential) and before.expires_at == after.expires_at:
        return
    if after.has_expired(unit.now):
        raise ValidationFailed.of(
            "expires_at",
            f"`{rfc3339(after.expires_at)}` is in the past; set a later time, or delete the credential to "
            "withdraw its secret now",
        )


async def _for_change(
    unit: UnitOfWork, parents: Parents, entity_id: str, verb: Verb
) -> tuple[dict[str, str], ApplicationCredential]:
    """The scope, and a credential that the caller may change: not one of the service's own applications."""
    scope, found = await entities.for_change(unit, APPLICATION_CREDENTIAL, parents, entity_id, verb)
    await refuse_platform_owned(unit, found)
    return scope, found


async def refuse_platform_owned(unit: UnitOfWork, credential: ApplicationCredential) -> None:
    """Raise Forbidden for a credential of one of the service's own applications."""
    await _refuse_platform_owned(unit, {"zone_id": credential.zone_id}, [credential])


async def _refuse_platform_owned(
    unit: UnitOfWork, scope: Parents, credentials: Sequence[ApplicationCredential]
) -> None:
    ids = [each.application_id for each in credentials]
    for application in await storage.many(unit.conn, APPLICATION, ids, within=scope):
        entities.refuse_platform_owned(APPLICATION, application)


def require_stated_subject(body: Mapping[str, Any], before: ApplicationCredential | None = None) -> None:
    """Check that a configuration in git says it where a `token` credential is for any subject.

    Whoever reviews a manifest sees what it says, and not what it leaves out.

    Args:
        body: what the manifest comes to; of a change, the patch.
        before: what is changed.
    Raises: ValidationFailed.
    """
    if before is None and body["type"] == CredentialType.TOKEN:
        subject, any_subject = body.get("subject"), body.get("any_subject")
    elif isinstance(before, TokenCredential):
        subject = body.get("subject", before.subject)
        any_subject = body.get("any_subject", before.any_subject)
    else:
        return
    if subject is None and not any_subject:
        raise ValidationFailed.of("subject", _SUBJECT_REQUIRED)


def _identifier_of(subject: str | None, *, any_subject: bool | None) -> str:
    """What a `token` credential goes by. Raises ValidationFailed for a contradiction to `any_subject`."""
    if subject is None and not any_subject:
        raise ValidationFailed.of("subject", _SUBJECT_REQUIRED)
    if subject is not None and any_subject:
        raise ValidationFailed.of("any_subject", "must not be true beside a `subject`")
    return subject if subject is not None else ANY_SUBJECT


async def list_of_application(
    unit: UnitOfWork, parents: Parents, application_id: str, query: ListQuery
) -> Listed:
    """One page of the credentials of one application."""
    await entities.retrieve(unit, APPLICATION, parents, application_id)
    filters = {**query.filters, "application_id": (application_id,)}
    return await entities.list_(unit, APPLICATION_CREDENTIAL, parents, replace(query, filters=filters))
