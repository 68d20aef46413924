"""The policies that every zone starts with: platform-owned, active, never edited in place."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


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


@cache
def all_defaults() -> tuple[DefaultPolicy, ...]:
    """The default policies, in the order of the default set."""
    folder = files("runtime.domain.policy") / "default_rules"
    return tuple(
        DefaultPolicy(name, description, (folder / f"{name}.cedar").read_text("utf-8"))
        for name, description in _DESCRIPTIONS.items()
    )
