"""Parts that work with the other parts: they are made first, and told of the rest when all are there."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.services.parts import Parts


class Attached:
    """One of the parts, which needs others at work, not at its making."""

    _parts: "Parts | None" = None

    def attach(self, parts: "Parts") -> None:
        """Work with these parts from now on."""
        self._parts = parts

    @property
    def parts(self) -> "Parts":
        """The parts this works with."""
        if self._parts is None:
            raise RuntimeError("attach() comes first")
        return self._parts
