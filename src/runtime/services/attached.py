"""Parts that work with the other parts: they are made first, and told of the rest when all are there."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.services.container import Services


class Attached:
    """One of the parts, which needs others at work, not at its making."""

    _services: "Services | None" = None

    def attach(self, services: "Services") -> None:
        """Work with these parts from now on."""
        self._services = services

    @property
    def services(self) -> "Services":
        """The parts this works with."""
        if self._services is None:
            raise RuntimeError("attach() comes first")
        return self._services
