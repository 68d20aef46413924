"""Consents of users to clients and resources, and the delegated grants that they make."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    bindparam,
    delete,
    exists,
    insert,
    null,
    select,
    type_coerce,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.delegated_grants import TRANSITIONS, Cause
from runtime.domain.identifiers import new_id
from runtime.storage.sql import revocation_causes, vault_tokens
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.grant_states import may_move
from runtime.storage.sql.session_roots import DelegatedGrantRecord
from runtime.storage.sql.tables import METADATA

SIGN_IN = ""  # the resource id under which consent to the sign-in scopes is kept

_AUTHORIZED, _REVOKED = TRANSITIONS[Cause.AUTHORIZATION], TRANSITIONS[Cause.REVOCATION]

_consents = METADATA.tables["consents"]
_grants = METADATA.tables["delegated_grants"]
_vault = METADATA.tables["vault_tokens"]


@dataclass(frozen=True, slots=True)
class ConsentRecord:
    """What a user agreed to for one client and one resource (or SIGN_IN).

    Attributes:
        redirect_host: where the answer was sent when the user agreed; another host needs a new answer.
    """

    resource_id: str
    scopes: frozenset[str]
    redirect_host: str


@dataclass(frozen=True, slots=True)
class ConsentState:
    """How a user's word to a client stands.

    Attributes:
        given: consents by resource id, that to signing in (SIGN_IN) among them.
        grants: all of the user's delegated grants, whether they still stand or not.
    """

    given: Mapping[str, ConsentRecord]
    grants: tuple[DelegatedGrantRecord, ...]


# Made once: making a statement costs more than running it.
_GRANTS = select(
    _grants.c.provider_id, _grants.c.resource_id, _grants.c.scopes, _grants.c.status, _grants.c.expires_at
).where(_grants.c.zone_id == bindparam("zone"), _grants.c.user_id == bindparam("user"))
_AGREED = {
    name: union_all(
        select(
            type_coerce(null(), _grants.c.provider_id.type).label("provider_id"),
            _consents.c.resource_id,
            _consents.c.scopes,
            _consents.c.redirect_host.label("said"),
            type_coerce(null(), _grants.c.expires_at.type).label("expires_at"),  # what SQLite reads it by
        ).where(
            _consents.c.zone_id == bindparam("zone"),
            _consents.c.user_id == bindparam("user"),
            _consents.c[name] == bindparam("party"),
        ),
        _GRANTS,
    )
    for name in ("application_id", "user_agent_id")
}


async def of_client(
    conn: AsyncConnection, *, zone_id: str, user_id: str, client_ref: ClientRef
) -> dict[str, ConsentRecord]:
    """A user's consents for one application or user agent, by resource id."""
    found = await conn.execute(
        select(_consents.c.resource_id, _consents.c.scopes, _consents.c.redirect_host).where(
            _consents.c.zone_id == zone_id,
            _consents.c.user_id == user_id,
            client_ref.owns(_consents),
        )
    )
    return {
        row.resource_id: ConsentRecord(row.resource_id, frozenset(row.scopes or ()), row.redirect_host)
        for row in found
    }


async def record(
    conn: AsyncConnection,
    decided: Iterable[ConsentRecord],
    *,
    zone_id: str,
    user_id: str,
    client_ref: ClientRef,
    now: datetime,
) -> None:
    """Keep what a user agreed to, in place of what stood there for the same resource."""
    for consent in decided:
        of_this = (
            _consents.c.zone_id == zone_id,
            _consents.c.user_id == user_id,
            client_ref.owns(_consents),
            _consents.c.resource_id == consent.resource_id,
        )
        values = {
            "scopes": sorted(consent.scopes),
            "redirect_host": consent.redirect_host,
            "updated_at": now,
        }
        changed = await conn.execute(update(_consents).where(*of_this).values(**values))
        if changed.rowcount == 0:
            await conn.execute(
                insert(_consents).values(
                    id=new_id(),
                    zone_id=zone_id,
                    user_id=user_id,
                    **client_ref.columns,
                    resource_id=consent.resource_id,
                    created_at=now,
                    **values,
                )
            )


async def agreed(conn: AsyncConnection, *, zone_id: str, user_id: str, client_ref: ClientRef) -> ConsentState:
    """A user's word to one client, in one statement."""
    statement = _AGREED["application_id" if client_ref.application_id is not None else "user_agent_id"]
    given: dict[str, ConsentRecord] = {}
    grants = []
    asked = {"zone": zone_id, "user": user_id, "party": client_ref.id}
    for provider_id, resource_id, scopes, said, expires_at in await conn.execute(statement, asked):
        may = frozenset(scopes or ())
        if provider_id is None:
            given[resource_id] = ConsentRecord(resource_id, may, said)
        else:
            grants.append(DelegatedGrantRecord(resource_id, provider_id, may, said, expires_at))
    return ConsentState(given, tuple(grants))


async def grant(
    conn: AsyncConnection,
    *,
    organization_id: str,
    zone_id: str,
    user_id: str,
    resource_id: str,
    provider_id: str,
    scopes: Collection[str],
    now: datetime,
    replaces: bool = False,
    expires_at: datetime | None = None,
) -> tuple[str, int]:
    """Make or widen a user's delegated grant for a resource, active again if it was not; its id and epoch.

    A grant that was ended starts again with these scopes alone.

    Args:
        replaces: it has these scopes alone from now on, and this end, whatever it had before: what another
            credential than before can do.
        expires_at: None for a grant that does not end by itself.
    """
    of_this = (
        _grants.c.zone_id == zone_id,
        _grants.c.user_id == user_id,
        _grants.c.resource_id == resource_id,
        _grants.c.provider_id == provider_id,
    )
    standing = (await conn.execute(select(_grants).where(*of_this).with_for_update())).one_or_none()
    if standing is None:
        grant_id = new_id()
        await conn.execute(
            insert(_grants).values(
                id=grant_id,
                organization_id=organization_id,
                zone_id=zone_id,
                user_id=user_id,
                resource_id=resource_id,
                provider_id=provider_id,
                scopes=sorted(scopes),
                status=_AUTHORIZED.target.value,
                epoch=1,
                expires_at=expires_at,
                refresh_token_set=False,
                created_at=now,
                updated_at=now,
            )
        )
        return grant_id, 1
    alive = standing.status == "active" and (standing.expires_at is None or standing.expires_at > now)
    wanted = sorted({*scopes, *(standing.scopes or ())} if alive and not replaces else set(scopes))
    if alive and not replaces and wanted == sorted(standing.scopes or ()):
        return standing.id, int(standing.epoch)
    epoch = int(standing.epoch) + 1
    await conn.execute(
        update(_grants)
        .where(*of_this)
        .values(
            scopes=wanted,
            status=_AUTHORIZED.target.value,
            expires_at=expires_at,
            epoch=epoch,
            updated_at=now,
        )
    )
    return standing.id, epoch


def _revoked(now: datetime) -> dict[str, Any]:
    """What a grant says once it was revoked: its credential is forgotten in the same transaction."""
    status, epoch = _REVOKED.target.value, _grants.c.epoch + 1
    return {"status": status, "epoch": epoch, "refresh_token_set": False, "updated_at": now}


async def revoke(conn: AsyncConnection, grant_id: str, *, zone_id: str, now: datetime) -> bool:
    """End a delegated grant, and what the user agreed to for its resource; False when it has ended already.

    What starts the grant again is the user's word to one client, and that is no word to any other. The
    upstream credential is forgotten in the same transaction.
    """
    done = await conn.execute(
        update(_grants)
        .where(
            _grants.c.id == grant_id,
            _grants.c.zone_id == zone_id,
            may_move(now, Cause.REVOCATION),
        )
        .values(**_revoked(now))
        .returning(_grants.c.user_id, _grants.c.resource_id)
    )
    ended = done.one_or_none()
    if ended is None:
        return False
    await vault_tokens.remove(conn, grant_id, zone_id=zone_id)
    of_this = {"user_id": ended.user_id, "resource_id": ended.resource_id}
    await withdraw(conn, zone_id=zone_id, **of_this, now=now)
    return True


async def revoke_credentials(
    conn: AsyncConnection,
    *,
    zone_id: str,
    now: datetime,
    resource_id: str | None = None,
    provider_id: str | None = None,
) -> int:
    """End the delegated grants of a resource or a provider that have a credential in the vault; how many.

    The zone's own tokens need none, so their grants stay, and so does every consent: users authorize anew.
    """
    named = {"resource_id": resource_id, "provider_id": provider_id}
    meant = (
        _grants.c.zone_id == zone_id,
        *(_grants.c[name] == value for name, value in named.items() if value is not None),
    )
    with_credential = exists().where(_vault.c.zone_id == zone_id, _vault.c.grant_id == _grants.c.id)
    ended = await conn.execute(
        update(_grants)
        .where(*meant, with_credential, may_move(now, Cause.REVOCATION))
        .values(**_revoked(now))
    )
    revoked = select(_grants.c.id).where(*meant, _grants.c.status == _REVOKED.target.value)
    await conn.execute(delete(_vault).where(_vault.c.zone_id == zone_id, _vault.c.grant_id.in_(revoked)))
    return ended.rowcount


async def withdraw(
    conn: AsyncConnection, *, zone_id: str, user_id: str, resource_id: str, now: datetime
) -> None:
    """Take back what a user agreed to for a resource, whichever application it was for."""
    await revocation_causes.add_grant(
        conn, zone_id=zone_id, user_id=user_id, resource_id=resource_id, now=now
    )
    await conn.execute(
        delete(_consents).where(
            _consents.c.zone_id == zone_id,
            _consents.c.user_id == user_id,
            _consents.c.resource_id == resource_id,
        )
    )


async def withdraw_all(conn: AsyncConnection, *, zone_id: str, client_ref: ClientRef, now: datetime) -> int:
    """Take back what every user agreed to for one application or user agent; how many consents that were."""
    await revocation_causes.add_issued(conn, zone_id, client_ref, now=now)
    gone = await conn.execute(
        delete(_consents).where(_consents.c.zone_id == zone_id, client_ref.owns(_consents))
    )
    return gone.rowcount
