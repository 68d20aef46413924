"""The epochs that one unit of work moves: written with the transaction, published after its commit."""

from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services import epochs
from runtime.services.container import Services
from runtime.storage.sql import organization_revision


@dataclass
class EpochUpdates:
    """Collects whose cached data is out of date: zones, sessions and users.

    Attributes:
        keeps_zones: nothing that is cached of a zone goes out of date: what is written concerns one user,
            whose epoch is bumped in its place.
    """

    keeps_zones: bool = False
    _changed_zones: set[str] = field(default_factory=set, init=False)
    _deleted_zones: set[str] = field(default_factory=set, init=False)
    _epochs: dict[str, int] = field(default_factory=dict, init=False)
    _noted: str | None = field(default=None, init=False)

    def add(self, key: str, epoch: int) -> None:
        """Publish this epoch after the commit; whoever writes it has done so in the transaction.

        Args:
            key: as `epochs.session_key` and its like give it.
        """
        self._epochs[key] = max(epoch, self._epochs.get(key, 0))

    def zone_changed(self, zone_id: str) -> None:
        """Bump the epoch of a zone with the transaction."""
        self._changed_zones.add(zone_id)

    def zone_deleted(self, zone_id: str, epoch: int) -> None:
        """Publish the last epoch of a zone that is deleted; none is written."""
        self._changed_zones.discard(zone_id)
        self._deleted_zones.add(zone_id)
        self.add(epochs.zone_key(zone_id), epoch)

    async def write(self, conn: AsyncConnection) -> None:
        """Bump the epochs of the changed zones in the database."""
        changed = set() if self.keeps_zones else self._changed_zones - self._deleted_zones
        bumped = await organization_revision.bump_zone_epochs(conn, changed)
        for zone_id, epoch in bumped.items():
            self.add(epochs.zone_key(zone_id), epoch)

    async def announce(self, services: Services, conn: AsyncConnection) -> None:
        """Note which epochs are about to move: the last step before the commit."""
        self._noted = await services.epochs.record_changes(conn, self._epochs)

    async def publish(self, services: Services) -> None:
        """Publish the epochs to all workers, and drop what this one has cached: the first step after."""
        await services.epochs.publish(self._epochs, noted=self._noted)
        for zone_id in self._changed_zones | self._deleted_zones:
            services.zones.invalidate(zone_id)
