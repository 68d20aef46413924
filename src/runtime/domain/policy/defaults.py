"""The default policies: those of every zone (platform-owned, immutable), and those of every user."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DEFAULT_SET = "default-zone-policies"  # the set that they make up in a zone, platform-owned


@dataclass(frozen=True, slots=True)
class DefaultPolicy:
    """One of them: `name` is also the `@id` of its rule."""

    name: str
    description: str
    text: str


_DESCRIPTIONS = {
    "default-user-grants": "An application uses what a user granted it",
    "default-app-delegation": "Managed applications act further along a chain",
    "default-app-direct-access": "An application reaches its declared dependencies on its own behalf",
}


_USER_DESCRIPTIONS = {"default-user-access": "Whatever the zone allows"}


@cache
def all_defaults() -> tuple[DefaultPolicy, ...]:
    """The default policies, in the order of the default set."""
    return _read("default_rules", _DESCRIPTIONS)


@cache
def user_defaults() -> tuple[DefaultPolicy, ...]:
    """The policies that a user's own set starts with: they take nothing away from what the zone allows."""
    return _read("user_rules", _USER_DESCRIPTIONS)


def _read(folder: str, descriptions: Mapping[str, str]) -> tuple[DefaultPolicy, ...]:
    place = files("runtime.domain.policy") / folder
    return tuple(
        DefaultPolicy(name, description, (place / f"{name}.cedar").read_text("utf-8"))
        for name, description in descriptions.items()
    )
