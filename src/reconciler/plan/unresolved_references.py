"""References of manifests that name nothing on the server; a plan cannot be made with one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reconciler.kinds import Manifest

MemberPath = tuple[str | int, ...]
"""A member of a manifest, by its steps from the root: `("spec", "dependencies", 0)`."""

MOST_GUESSES = 100  # searches for a similar name: a missing zone makes every reference look wrong


@dataclass(frozen=True, slots=True)
class UnresolvedReference:
    """A name in a manifest that nothing on the server has.

    Attributes:
        path: the member with the name; empty where `place` says more.
        place: `file:line:column` of a name within a text; empty for a member.
    """

    manifest: Manifest
    message: str
    path: MemberPath = ()
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place or self.manifest.origin}: {self.message}"


class Suggestions:
    """Suggests what was meant, for a limited number of names: each search reads all known names."""

    def __init__(self, suggest: Callable[[str, Iterable[str]], str]) -> None:
        """*suggest*: the end of a message for an unknown name, given the known ones."""
        self._suggest, self._left = suggest, MOST_GUESSES

    def hint(self, word: str, known: Iterable[str]) -> str:
        """The suggestion; empty once the limit is reached."""
        if not word or self._left <= 0:
            return ""
        self._left -= 1
        return self._suggest(word, known)
