"""The allowlist of environment variables that manifests may read secrets from; empty by default."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from reconciler import environment_variables

_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


class PatternWrong(ValueError):
    """The pattern is neither a name nor a prefix, or would allow a variable that is never allowed."""


@dataclass(frozen=True)
class AllowedNames:
    """Names, and prefixes that end in `*`; `place` is the file to add others to, for messages."""

    patterns: frozenset[str] = frozenset()
    place: str = ""

    @classmethod
    def of(cls, patterns: Iterable[str], place: str = "") -> "AllowedNames":
        """The names that the patterns allow. Raises PatternWrong."""
        checked = frozenset(patterns)
        for pattern in sorted(checked):
            if not _PATTERN.fullmatch(pattern):
                raise PatternWrong(
                    f"`{pattern}` is neither the name of an environment variable nor a prefix as in `OKTA_*`"
                )
            if is_own(pattern):
                raise PatternWrong(f"`{pattern}`: no manifest may read zonectl's own variables")
        return cls(checked, place)

    def problem_of(self, name: str) -> str:
        """Why a manifest may not read a variable, and what to do; empty when it may."""
        if is_own(name):
            return f"the environment variable `{name}` is zonectl's own; name another one"
        if any(_allows(pattern, name) for pattern in self.patterns):
            return ""
        listed = f", or list it under `allow_env` in `{self.place}`" if self.place else ""
        return (
            f"manifests may not read the environment variable `{name}`: "
            f"allow it with `--allow-env {name}`{listed}"
        )


def is_own(name: str) -> bool:
    """Tell whether a variable is zonectl's own: a manifest could send it to a provider of its choice."""
    return name.upper().startswith(environment_variables.PREFIX)


def _allows(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
