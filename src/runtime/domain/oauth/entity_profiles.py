"""Entity profiles (`sub_profile`): whether a subject or an actor is a person, a service or an AI agent.

Spec: draft-mora-oauth-entity-profiles-01; draft-mcguinness-oauth-actor-profile-00.
"""

from collections.abc import Collection
from enum import StrEnum

from runtime.domain.kinds.values import ApplicationTrait


class EntityProfile(StrEnum):
    """The values of `sub_profile` that a zone writes."""

    USER = "user"
    SERVICE = "service"
    AI_AGENT = "ai_agent"


def profile_of(traits: Collection[str] | None) -> EntityProfile:
    """What an application with these traits is: a service, unless `ai-agent` is among them."""
    return EntityProfile.AI_AGENT if ApplicationTrait.AI_AGENT in (traits or ()) else EntityProfile.SERVICE
