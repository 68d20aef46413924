"""Fetch, replace and reset the policy bundle of a user.

It stands in the tables of the zone's policies, with the user as its target; its policies are named
`<user id>/<name>`. Writes of one organization wait for one another, so of several replacements that name one
tag the first wins. The user's epoch moves with every write: the next exchange sees it.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.bundles import Bundle, BundlePolicy
from runtime.domain.errors import BundleInvalid, PreconditionFailed, Problem, RateLimited
from runtime.domain.kinds import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION
from runtime.domain.kinds.policy import Policy, PolicySet, PolicySetVersion, PolicyVersion
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import PolicySetMode, PolicyTargetType
from runtime.domain.policy import schema
from runtime.domain.policy.defaults import user_defaults
from runtime.services import epochs, rate_limits
from runtime.services.bundles.access import BundleCaller, require_owner
from runtime.services.bundles.parsing import UploadedBundle, WantedPolicy
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.policies import activation, composition, policy_texts, policy_versions
from runtime.services.management.policies.policy_texts import CheckedPolicyText
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage

_USER = PolicyTargetType.USER
_ACTIVE = PolicySetMode.ACTIVE.value


@dataclass(frozen=True, slots=True)
class _InForce:
    """A user's policy set as it is bound: each policy with the version that counts."""

    policy_set: PolicySet
    version: PolicySetVersion
    policies: tuple[tuple[Policy, PolicyVersion], ...]

    @property
    def bundle(self) -> Bundle:
        """The same, as it is sent."""
        user_id = cast(str, self.policy_set.target_id)
        return Bundle(
            target_id=user_id,
            schema_version=self.version.schema_version,
            schema=schema.get(self.version.schema_version).text,
            policies=tuple(
                BundlePolicy(policy.id, _label(policy, user_id), version.cedar_raw or "")
                for policy, version in self.policies
            ),
        )


async def fetch(services: Services, holder: BundleCaller, request_id: str) -> Bundle:
    """The bundle that is in force for a user; the first time it is made from the default policies.

    Raises: Forbidden for an application that has no say in it.
    """
    user = await require_owner(services, holder)
    async with services.database.reading() as conn:
        found = await _in_force(conn, user)
    if found is None:
        async with _writing(services, user, request_id) as unit:
            found = await _in_force(unit.conn, user) or await _seed(unit, user)
    return found.bundle


async def admit_write(services: Services, holder: BundleCaller) -> User:
    """Count a write of the user whose set it is.

    Raises: Forbidden for an application that has no say in it; RateLimited: each write reads policies, and
        makes the organization's others wait.
    """
    user = await require_owner(services, holder)
    if await services.rate_limiter.hit(rate_limits.BUNDLE_WRITES, user.zone_id, user.id):
        raise RateLimited("too many changes of the policy bundle; wait a minute")
    return user


async def replace(
    services: Services, holder: BundleCaller, wanted: UploadedBundle, *, if_match: str | None, request_id: str
) -> Bundle:
    """Make this the bundle of a user; what it does not list any more is archived.

    Raises: Forbidden for an application that has no say in it; PreconditionFailed, when the caller has not
        seen what is in force; BundleInvalid for a policy that is not one of the user's.
    """
    user = await require_owner(services, holder)
    async with _writing(services, user, request_id) as unit:
        present = await _in_force(unit.conn, user)
        _require_match(present, if_match)
        kept = {policy.id: (policy, version) for policy, version in present.policies} if present else {}
        _refuse_unknown(wanted, kept)
        listed = {each.public_id for each in wanted.policies}
        for policy, _ in kept.values():
            if policy.id not in listed:
                await _archive(unit, policy)
        policy_set = present.policy_set if present else await _new_set(unit, user)
        taken = {policy.name for policy, _ in kept.values() if policy.id in listed}
        written = [
            await _written(unit, user, each, kept, wanted.schema_version, taken) for each in wanted.policies
        ]
        if present is not None and _same(present, written, wanted.schema_version):
            return present.bundle
        made = await _compose(unit, user, policy_set, written, wanted.schema_version)
    return made.bundle


async def reset(services: Services, holder: BundleCaller, request_id: str) -> None:
    """Archive a user's policy set with its policies; nothing at all when there is none.

    Raises: Forbidden for an application that has no say in it.
    """
    user = await require_owner(services, holder)
    async with services.database.reading() as conn:
        if await _in_force(conn, user) is None:
            return
    async with _writing(services, user, request_id) as unit:
        if (present := await _in_force(unit.conn, user)) is None:
            return
        zone = {"zone_id": user.zone_id}
        await bindings.unbind(unit.conn, present.policy_set.id, **zone, mode=_ACTIVE)
        for policy, _ in present.policies:
            await _archive(unit, policy)
        gone = {"archived_at": unit.now, "updated_by": unit.caller.id}
        after = present.policy_set.model_copy(update=gone)
        await entities.change(unit, POLICY_SET, zone, present.policy_set, after, action="archive")


@asynccontextmanager
async def _writing(services: Services, user: User, request_id: str) -> AsyncIterator[UnitOfWork]:
    """A unit in the user's name, which nobody else of the organization writes beside."""
    caller = Caller(user.id, "user", user.organization_id, "", user.identifier)
    async with unit_of_work(services, caller, request_id) as unit:
        unit.epochs.keeps_zones = True
        await unit.next_revision()
        yield unit
        for key, epoch in (await epochs.bump_user(unit.conn, user.zone_id, user.id)).items():
            unit.epochs.add(key, epoch)


async def _in_force(conn: AsyncConnection, user: User) -> _InForce | None:
    """What is bound to a user; None when nothing is."""
    zone = {"zone_id": user.zone_id}
    bound = await bindings.of_target(conn, _USER.value, user.id, **zone)
    active = next((each for each in bound if each.mode == _ACTIVE), None)
    if active is None:
        return None
    policy_set = await storage.get(conn, POLICY_SET, active.policy_set_id, within=zone)
    within = {**zone, "policy_set_id": policy_set.id}
    version = await storage.get(conn, POLICY_SET_VERSION, active.policy_set_version_id, within=within)
    entries = version.manifest.entries
    owners = await storage.many(conn, POLICY, [each.policy_id for each in entries], within=zone)
    texts = await storage.many(
        conn, POLICY_VERSION, [each.policy_version_id for each in entries], within=zone
    )
    pairs = zip(owners, texts, strict=True)
    return _InForce(
        policy_set,
        version,
        tuple(pairs),
    )


async def _seed(unit: UnitOfWork, user: User) -> _InForce:
    """A user's first policy set: the default policies, as the user's own."""
    version = await bindings.schema_version(unit.conn, zone_id=user.zone_id)
    written = []
    for default in user_defaults():
        text = policy_texts.read(cedar_raw=default.text, schema_version=version)
        name = _name(user, default.name)
        written.append(await _new_policy(unit, user, name, text, version, description=default.description))
    return await _compose(unit, user, await _new_set(unit, user), written, version)


async def _new_set(unit: UnitOfWork, user: User) -> PolicySet:
    name = {"name": f"user-policies/{user.id}"}
    decided = {"target_type": _USER, "target_id": user.id, "created_by": unit.caller.id}
    made = await entities.new_entity(unit, POLICY_SET, {"zone_id": user.zone_id}, name, **decided)
    return await entities.add(unit, POLICY_SET, made)


async def _new_policy(
    unit: UnitOfWork,
    user: User,
    name: str,
    text: CheckedPolicyText,
    schema_version: str,
    *,
    description: str | None = None,
) -> tuple[Policy, PolicyVersion]:
    told = {"name": name} | ({"description": description} if description else {})
    zone = {"zone_id": user.zone_id}
    made = await entities.new_entity(unit, POLICY, zone, told, target_type=_USER, created_by=unit.caller.id)
    policy = await entities.add(unit, POLICY, made)
    return policy, await policy_versions.add_version(unit, policy, text, schema_version)


async def _written(
    unit: UnitOfWork,
    user: User,
    wanted: WantedPolicy,
    kept: dict[str, tuple[Policy, PolicyVersion]],
    schema_version: str,
    taken: set[str],
) -> tuple[Policy, PolicyVersion]:
    """The policy at the version that the bundle wants: a new one only when its text is another."""
    if wanted.public_id is None:
        name = _free_name(user, cast(str, wanted.new_policy), taken)
        taken.add(name)
        return await _new_policy(unit, user, name, wanted.text, schema_version)
    policy, version = kept[wanted.public_id]
    if (version.sha, version.schema_version) == (wanted.text.sha, schema_version):
        return policy, version
    return policy, await policy_versions.add_version(unit, policy, wanted.text, schema_version)


async def _compose(
    unit: UnitOfWork,
    user: User,
    policy_set: PolicySet,
    written: Collection[tuple[Policy, PolicyVersion]],
    schema_version: str,
) -> _InForce:
    """Bind a new version of the user's set, made of these."""
    versions = [version for _, version in sorted(written, key=lambda pair: pair[0].id)]
    made = await composition.compose_version(unit, policy_set, versions, schema_version)
    zone = {"zone_id": user.zone_id}
    await bindings.bind(
        unit.conn,
        **zone,
        target_type=_USER.value,
        target_id=user.id,
        mode=_ACTIVE,
        policy_set_id=policy_set.id,
        policy_set_version_id=made.id,
        now=unit.now,
    )
    after = {"policy_set_version_id": made.id}
    action = "policy_set_versions.activate"
    await unit.record(action, POLICY_SET_VERSION.name, made.id, user.zone_id, before=None, after=after)
    await activation.renew_etag(unit, user.zone_id, policy_set.id)
    return _InForce(policy_set, made, tuple(written))


async def _archive(unit: UnitOfWork, policy: Policy) -> None:
    after = policy.model_copy(update={"archived_at": unit.now, "updated_by": unit.caller.id})
    await entities.change(unit, POLICY, {"zone_id": policy.zone_id}, policy, after, action="archive")


def _same(present: _InForce, written: Collection[tuple[Policy, PolicyVersion]], schema_version: str) -> bool:
    """Tell whether these are what is in force already."""
    versions = {version.id for _, version in present.policies}
    return present.version.schema_version == schema_version and versions == {each.id for _, each in written}


def _require_match(present: _InForce | None, if_match: str | None) -> None:
    """Raise PreconditionFailed when the caller changes another bundle than it has seen.

    Spec: RFC 9110 section 13.1.1.
    """
    if if_match is None or (present is not None and if_match.strip() == "*"):
        return
    given = {tag.strip() for tag in if_match.split(",")}
    if present is None:
        raise PreconditionFailed("no bundle exists yet: fetch it first")
    if (etag := present.bundle.etag) not in given:
        raise PreconditionFailed(f"the bundle has changed: its current ETag is {etag}")


def _refuse_unknown(wanted: UploadedBundle, kept: Collection[str]) -> None:
    problems = [
        Problem(
            "bundle_invalid", f"no policy `{each.public_id}` exists in this bundle", f"policies[{position}]"
        )
        for position, each in enumerate(wanted.policies)
        if each.public_id is not None and each.public_id not in kept
    ]
    if problems:
        raise BundleInvalid(f"`{problems[0].field}`: {problems[0].message}", problems=problems)


def _name(user: User, label: str) -> str:
    """What a policy is called among all of the zone's."""
    return f"{user.id}/{label}"


def _free_name(user: User, label: str, taken: Collection[str]) -> str:
    names = (_name(user, label if number == 1 else f"{label}-{number}") for number in count(1))
    return next(name for name in names if name not in taken)


def _label(policy: Policy, user_id: str) -> str:
    return policy.name.removeprefix(f"{user_id}/")
