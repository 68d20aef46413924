"""Verified chains: a subject token that is in order, with whose authority it has and everyone who acted."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import ChainActor
from runtime.domain.oauth.entity_profiles import EntityProfile, profile_of
from runtime.domain.policy.requests import PolicyApplication
from runtime.services.authority.subject_tokens import SubjectToken, require_own_application, require_root
from runtime.services.issuing.policy_decision import PolicyPrincipal
from runtime.services.zones import CachedZone, SessionRoot


@dataclass(frozen=True)
class VerifiedChain:
    """What an exchange goes on from: a verified subject token and what it rests on.

    Attributes:
        before: everyone who acted so far, the latest first.
        root: None where an application acts on its own behalf.
    """

    subject: SubjectToken
    before: tuple[ChainActor, ...]
    root: SessionRoot | None
    authority: PolicyPrincipal

    @cached_property
    def delegation(self) -> Delegation:
        """What the subject token delegates, with everyone who acted, though it may not name them all."""
        subject = self.subject
        return Delegation(subject.audience, subject.scopes, self.before, self.ends_at, subject.jkt)

    @property
    def ends_at(self) -> datetime:
        """When the subject token ends, which no token that is made from it outlives."""
        return datetime.fromtimestamp(self.subject.expires_at, UTC)

    @cached_property
    def subject_profile(self) -> EntityProfile:
        """What the subject is, as the zone knows it now, whatever the subject token says."""
        principal = self.authority.principal
        if isinstance(principal, PolicyApplication):
            return profile_of(principal.traits)
        return EntityProfile.USER


async def authority_of(
    zone: CachedZone, subject: SubjectToken, root: SessionRoot | None, now: datetime
) -> tuple[SessionRoot | None, PolicyPrincipal]:
    """A user with a session that stands, or an application on its own. Raises InvalidGrant."""
    if subject.session_id is None:
        own = await require_own_application(zone, subject, now)
        facts = await zone.applications.policy_facts(own)
        return None, PolicyPrincipal(facts, f"application:{own.id}", frozenset({own.id}))
    standing = require_root(root, subject, now)
    return standing, PolicyPrincipal.of_user(standing.session, standing.principal)
