"""The vault: the sealed upstream credential of a delegated grant, one row each.

Two things keep a refreshed token from being lost or overwritten: of all workers only the holder of the lease
refreshes, and what it writes is compared and swapped on the row's id and version. A row that the user has
replaced has another id, so an old refresh finds nothing to write to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.delegated_grants import TRANSITIONS, Cause
from runtime.domain.kinds.values import GrantStatus, ProviderType, UserStatus
from runtime.storage.sql.grant_states import has_status, may_move
from runtime.storage.sql.tables import METADATA, TABLES

_grants = METADATA.tables["delegated_grants"]
_providers = TABLES["Provider"]
_tokens = METADATA.tables["vault_tokens"]
_users = TABLES["User"]
_REFRESHED = TRANSITIONS[Cause.REFRESH]
_KEY = (_tokens.c.zone_id, _tokens.c.id)
_IS_DEAD = _tokens.c.state == literal_column("'dead'")  # as in the index
_MOST_IN_TURN = 10_000  # due credentials among which zones take turns: a query reads no more


class VaultState(StrEnum):
    """Whether the provider still accepts a credential."""

    LIVE = "live"
    DEAD = "dead"  # only the user's word at the provider brings another one


@dataclass(frozen=True, slots=True)
class SealedTokens:
    """What a provider has issued, sealed for a row of the vault.

    Attributes:
        expires_at: of the access token; None for one that does not expire by itself.
        refresh_at: from when on the access token is worth refreshing; None when nothing refreshes it.
    """

    access_token: bytes
    refresh_token: bytes | None
    token_type: str
    expires_at: datetime | None
    refresh_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class VaultPlace:
    """What a delegated grant is for: of a user, a resource and a provider there is one."""

    zone_id: str
    user_id: str
    resource_id: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class VaultRecord:
    """A row of the vault, with what its grant allows.

    Attributes:
        lease_owner: who refreshes; None beside a `lease_until` ahead: nobody does before that.
        scopes: of the grant.
        grant_expires_at: None for a grant that does not end by itself.
        failures: refreshes refused since the last one that succeeded.
    """

    id: str
    grant_id: str
    version: int
    tokens: SealedTokens
    state: VaultState
    failures: int
    lease_owner: str | None
    lease_until: datetime | None
    scopes: frozenset[str]
    grant_expires_at: datetime | None

    def is_due(self, now: datetime) -> bool:
        """Tell whether the access token is worth refreshing by now."""
        return self.tokens.refresh_at is not None and self.tokens.refresh_at <= now


@dataclass(frozen=True, slots=True)
class EndedCredential:
    """What a provider has issued, and nobody is to use any more; sealed for its row and version."""

    organization_id: str
    zone_id: str
    user_id: str
    provider_id: str
    row_id: str
    version: int
    tokens: SealedTokens


# Made once: making a statement costs more than running it.
_FIND = (
    select(
        _tokens,
        _grants.c.scopes.label("grant_scopes"),
        _grants.c.expires_at.label("ends_at"),
    )
    .join_from(
        _grants, _tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id)
    )
    .where(
        _grants.c.zone_id == bindparam("zone"),
        _grants.c.user_id == bindparam("user"),
        _grants.c.resource_id == bindparam("resource"),
        _grants.c.provider_id == bindparam("provider"),
        _grants.c.status == GrantStatus.ACTIVE.value,
        or_(
            _grants.c.expires_at.is_(None),
            _grants.c.expires_at > bindparam("now", type_=_grants.c.expires_at.type),
        ),
    )
)


async def find(
    conn: AsyncConnection,
    *,
    zone_id: str,
    user_id: str,
    resource_id: str,
    provider_id: str,
    now: datetime,
) -> VaultRecord | None:
    """The credential of an active grant, its own expiry unchecked; None without one."""
    asked = {"zone": zone_id, "user": user_id, "resource": resource_id, "provider": provider_id, "now": now}
    row = (await conn.execute(_FIND, asked)).one_or_none()
    if row is None:
        return None
    return VaultRecord(
        id=row.id,
        grant_id=row.grant_id,
        version=row.version,
        tokens=SealedTokens(
            row.access_token, row.refresh_token, row.token_type, row.expires_at, row.refresh_at
        ),
        state=VaultState(row.state),
        failures=row.failures,
        lease_owner=row.lease_owner,
        lease_until=row.lease_until,
        scopes=frozenset(row.grant_scopes or ()),
        grant_expires_at=row.ends_at,
    )


async def hold_provider(
    conn: AsyncConnection, provider_id: str, *, zone_id: str, for_change: bool = False
) -> None:
    """Let nobody change a provider until the transaction ends: what ends its grants sees all of them.

    Args:
        for_change: by who changes it: nobody may store what it has issued meanwhile.
    """
    await conn.execute(
        select(_providers.c.id)
        .where(_providers.c.zone_id == zone_id, _providers.c.id == provider_id)
        .with_for_update(read=not for_change)
    )


async def put(
    conn: AsyncConnection, row_id: str, tokens: SealedTokens, *, zone_id: str, grant_id: str, now: datetime
) -> None:
    """Keep a credential that the user has just authorized, in place of what the grant had.

    Args:
        row_id: a new id, which the tokens are sealed for, as version 1.
    """
    await remove(conn, grant_id, zone_id=zone_id)
    await conn.execute(
        insert(_tokens).values(
            id=row_id,
            zone_id=zone_id,
            grant_id=grant_id,
            version=1,
            state=VaultState.LIVE.value,
            failures=0,
            grant_expires_at=_end_of(grant_id, zone_id),
            created_at=now,
            updated_at=now,
            **_columns(tokens),
        )
    )
    await conn.execute(
        update(_grants)
        .where(_grants.c.zone_id == zone_id, _grants.c.id == grant_id)
        .values(refresh_token_set=tokens.refresh_token is not None, refreshed_at=None)
    )


async def remove(conn: AsyncConnection, grant_id: str, *, zone_id: str) -> None:
    """Forget the credential of a grant."""
    await conn.execute(delete(_tokens).where(_tokens.c.zone_id == zone_id, _tokens.c.grant_id == grant_id))


async def issued(
    conn: AsyncConnection,
    *,
    zone_id: str,
    limit: int,
    grant_id: str | None = None,
    user_id: str | None = None,
    resource_id: str | None = None,
    provider_id: str | None = None,
) -> list[EndedCredential]:
    """The credentials of a grant, a user, a resource or a provider that outside providers have issued.

    Without any of these, those of the zone. They are held as they are until the transaction ends, which is
    going to remove them.
    """
    named = {"id": grant_id, "user_id": user_id, "resource_id": resource_id, "provider_id": provider_id}
    found = await conn.execute(
        select(_tokens, _grants.c.organization_id, _grants.c.user_id, _grants.c.provider_id)
        .join_from(
            _grants, _tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id)
        )
        .join(
            _providers,
            and_(_providers.c.zone_id == _grants.c.zone_id, _providers.c.id == _grants.c.provider_id),
        )
        .where(
            _grants.c.zone_id == zone_id,
            *(_grants.c[name] == value for name, value in named.items() if value is not None),
            _providers.c.type == ProviderType.EXTERNAL.value,
        )
        .order_by(_grants.c.id)
        .limit(limit)
        .with_for_update(of=(_grants, _tokens))
    )
    return [
        EndedCredential(
            row.organization_id,
            zone_id,
            row.user_id,
            row.provider_id,
            row.id,
            row.version,
            SealedTokens(row.access_token, row.refresh_token, row.token_type, row.expires_at),
        )
        for row in found
    ]


async def connected_providers(
    conn: AsyncConnection, *, zone_id: str, user_id: str, now: datetime
) -> Sequence[str]:
    """Ids of the providers at which a user has a connected account, as far as is known here."""
    found = await conn.scalars(
        select(_grants.c.provider_id)
        .join_from(
            _grants, _tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id)
        )
        .where(
            _grants.c.zone_id == zone_id,
            _grants.c.user_id == user_id,
            has_status(now, GrantStatus.ACTIVE),
            _tokens.c.state == VaultState.LIVE.value,
        )
        .distinct()
    )
    return found.all()


async def forget(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget credentials that have been worth nothing since before then; how many, *limit* at most.

    Their provider has refused to refresh them, or their grant has expired. The grants stay: what the user has
    said is theirs to take back.
    """
    gone = 0
    for is_over in (and_(_IS_DEAD, _tokens.c.updated_at < before), _tokens.c.grant_expires_at < before):
        if gone < limit:
            gone += await _forget(conn, is_over, limit=limit - gone)
    return gone


async def _forget(conn: AsyncConnection, is_over: ColumnElement[bool], *, limit: int) -> int:
    # The grants are locked before the vault's rows, as a revocation does it, and say what they have left.
    over = await conn.execute(
        select(_tokens.c.zone_id, _tokens.c.id)
        .join_from(
            _tokens,
            _grants,
            and_(_grants.c.zone_id == _tokens.c.zone_id, _grants.c.id == _tokens.c.grant_id),
        )
        .where(is_over)
        .limit(limit)
        .with_for_update(of=_grants, skip_locked=True)
    )
    rows = [tuple(row) for row in over]
    if not rows:
        return 0
    done = await conn.execute(
        delete(_tokens)
        .where(tuple_(*_KEY).in_(rows), is_over)
        .returning(_tokens.c.zone_id, _tokens.c.grant_id)
    )
    left = [tuple(row) for row in done]
    await conn.execute(
        update(_grants)
        .where(tuple_(_grants.c.zone_id, _grants.c.id).in_(left))
        .values(refresh_token_set=False)
    )
    return len(left)


async def take_lease(
    conn: AsyncConnection,
    row_id: str,
    *,
    zone_id: str,
    version: int,
    owner: str,
    now: datetime,
    until: datetime,
) -> bool:
    """Become the only one that refreshes this version until then; False when somebody else is, or was.

    Args:
        owner: another one for each attempt.
    """
    taken = await conn.execute(
        update(_tokens)
        .where(
            *_version(zone_id, row_id, version),
            _tokens.c.state == VaultState.LIVE.value,
            or_(_tokens.c.lease_until.is_(None), _tokens.c.lease_until <= now),
        )
        .values(lease_owner=owner, lease_until=until)
    )
    return taken.rowcount == 1


async def replace(
    conn: AsyncConnection,
    row_id: str,
    tokens: SealedTokens,
    *,
    zone_id: str,
    version: int,
    now: datetime,
    scopes: frozenset[str] | None = None,
    grant_expires_at: datetime | None = None,
) -> bool:
    """Keep what a refresh has brought as the next version, and end the lease; False when it comes too late.

    Whoever lost their lease meanwhile may still write, as long as nobody else has: a provider that rotates
    refresh tokens has ended the one before. A grant that was revoked meanwhile has no row any more.

    Args:
        version: the one that was refreshed; the tokens are sealed for the next.
        scopes, grant_expires_at: the grant's from now on; it keeps what it has where no scopes are given.
    """
    # The grant's row is locked before the vault's, as a revocation does it.
    grant_id = await conn.scalar(
        select(_grants.c.id)
        .join(_tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id))
        .where(*_version(zone_id, row_id, version), may_move(now, Cause.REFRESH))
        .with_for_update(of=_grants)
    )
    swapped = await conn.execute(
        update(_tokens)
        .where(*_version(zone_id, row_id, version), _tokens.c.grant_id == grant_id)
        .values(
            version=version + 1,
            failures=0,
            state=VaultState.LIVE.value,
            lease_owner=None,
            lease_until=None,
            updated_at=now,
            **_columns(tokens),
            **({} if scopes is None else {"grant_expires_at": grant_expires_at}),
        )
    )
    if swapped.rowcount == 0:
        return False
    await conn.execute(
        update(_grants)
        .where(_grants.c.zone_id == zone_id, _grants.c.id == grant_id)
        .values(
            status=_REFRESHED.target.value,
            refreshed_at=now,
            refresh_token_set=tokens.refresh_token is not None,
            updated_at=now,
            **({} if scopes is None else {"scopes": sorted(scopes), "expires_at": grant_expires_at}),
        )
    )
    return True


async def note_failure(
    conn: AsyncConnection,
    row_id: str,
    *,
    zone_id: str,
    version: int,
    owner: str,
    dead_after: int,
    now: datetime,
) -> VaultState | None:
    """Count a refresh that the provider has refused, and end the lease; the state that follows.

    Of a credential that is dead by that, the grant says that no refresh token is kept: none is of use.

    Only the holder of the lease may: None when that is somebody else by now, or nobody.

    Args:
        dead_after: refusals in a row after which the credential counts as dead.
    """
    # The grant's row is locked before the vault's, as a revocation does it.
    grant_id = await conn.scalar(
        select(_grants.c.id)
        .join(_tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id))
        .where(*_version(zone_id, row_id, version))
        .with_for_update(of=_grants)
    )
    failures = await conn.scalar(
        update(_tokens)
        .where(*_version(zone_id, row_id, version), _tokens.c.lease_owner == owner)
        .values(failures=_tokens.c.failures + 1, lease_owner=None, lease_until=None, updated_at=now)
        .returning(_tokens.c.failures)
    )
    if failures is None:
        return None
    if failures < dead_after:
        return VaultState.LIVE
    await conn.execute(
        update(_tokens).where(*_version(zone_id, row_id, version)).values(state=VaultState.DEAD.value)
    )
    await conn.execute(
        update(_grants)
        .where(_grants.c.zone_id == zone_id, _grants.c.id == grant_id)
        .values(refresh_token_set=False)
    )
    return VaultState.DEAD


async def pause(
    conn: AsyncConnection, row_id: str, *, zone_id: str, version: int, owner: str, until: datetime
) -> None:
    """End a lease whose refresh has come to nothing: nobody tries again before *until*."""
    await conn.execute(
        update(_tokens)
        .where(*_version(zone_id, row_id, version), _tokens.c.lease_owner == owner)
        .values(lease_owner=None, lease_until=until)
    )


async def due(conn: AsyncConnection, *, now: datetime, used_since: datetime, limit: int) -> list[VaultPlace]:
    """Whose access tokens are worth refreshing: those in use, of active grants and users, not yet over.

    Zones take turns: however many are due in one, another's are not behind them.
    """
    waiting = (
        select(
            _grants.c.zone_id,
            _grants.c.user_id,
            _grants.c.resource_id,
            _grants.c.provider_id,
            _tokens.c.refresh_at,
        )
        .join_from(
            _tokens,
            _grants,
            and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id),
        )
        .join(_users, and_(_users.c.zone_id == _grants.c.zone_id, _users.c.id == _grants.c.user_id))
        .where(
            _tokens.c.refresh_at <= now,
            _tokens.c.expires_at > now,
            _tokens.c.used_at > used_since,
            _tokens.c.state == VaultState.LIVE.value,
            or_(_tokens.c.lease_until.is_(None), _tokens.c.lease_until <= now),
            may_move(now, Cause.REFRESH),
            _users.c.status == UserStatus.ACTIVE.value,
        )
        .order_by(_tokens.c.refresh_at)
        .limit(_MOST_IN_TURN)
        .subquery()
    )
    turn = func.row_number().over(partition_by=waiting.c.zone_id, order_by=waiting.c.refresh_at)
    found = await conn.execute(
        select(*(waiting.c[each.name] for each in fields(VaultPlace)))
        .order_by(turn, waiting.c.refresh_at)
        .limit(limit)
    )
    return [VaultPlace(*row) for row in found]


async def note_used(conn: AsyncConnection, used: Iterable[tuple[str, str]], *, now: datetime) -> None:
    """Keep that the credentials of these zones and rows have just been handed out."""
    pairs = sorted(used)
    await conn.execute(update(_tokens).where(tuple_(*_KEY).in_(pairs)).values(used_at=now))


async def forget_uses(conn: AsyncConnection, *, before: datetime, now: datetime, limit: int) -> int:
    """Forget when credentials were used that are due, and unused since then; how many, *limit* at most.

    So `due` does not read them each time. What somebody is about to change is left for the next time.
    """
    unused = (
        select(_tokens.c.zone_id, _tokens.c.id)
        .where(_tokens.c.refresh_at <= now, _tokens.c.used_at <= before)
        .order_by(_tokens.c.refresh_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    done = await conn.execute(update(_tokens).where(tuple_(*_KEY).in_(unused)).values(used_at=None))
    return done.rowcount


def _end_of(grant_id: str, zone_id: str) -> ScalarSelect[datetime | None]:
    """When a grant ends."""
    of_this = (_grants.c.zone_id == zone_id, _grants.c.id == grant_id)
    return select(_grants.c.expires_at).where(*of_this).scalar_subquery()


def _version(zone_id: str, row_id: str, version: int) -> tuple[ColumnElement[bool], ...]:
    return (_tokens.c.zone_id == zone_id, _tokens.c.id == row_id, _tokens.c.version == version)


def _columns(tokens: SealedTokens) -> dict[str, object]:
    return {
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token,
        "token_type": tokens.token_type,
        "expires_at": tokens.expires_at,
        "refresh_at": tokens.refresh_at,
    }
