"""The epochs that one unit of work moves: written with the transaction, published after its commit."""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services import epochs
from runtime.services.container import Services
from runtime.storage.sql import organization_revision, revocations, zone_changes

MOST_TAGS = 500  # of one change; one of more is one of everything


@dataclass
class EpochUpdates:
    """Collects whose cached data is out of date: zones, sessions and users.

    Attributes:
        keeps_zones: nothing that is cached of a zone goes out of date: what is written concerns one user,
            whose epoch is bumped in its place.
    """

    keeps_zones: bool = False
    _changed_zones: dict[str, set[str] | None] = field(default_factory=dict, init=False)
    _deleted_zones: set[str] = field(default_factory=set, init=False)
    _epochs: dict[str, int] = field(default_factory=dict, init=False)
    _noted: str | None = field(default=None, init=False)

    def add(self, key: str, epoch: int) -> None:
        """Publish this epoch after the commit; whoever writes it has done so in the transaction.

        Args:
            key: as `epochs.session_key` and its like give it.
        """
        self._epochs[key] = max(epoch, self._epochs.get(key, 0))

    def zone_changed(self, zone_id: str, tags: Collection[str] | None = None) -> None:
        """Bump the epoch of a zone with the transaction.

        Args:
            tags: of what has changed of it; None for everything. Without any nothing is out of date.
        """
        if tags is None:
            self._changed_zones[zone_id] = None
        elif tags and (changed := self._changed_zones.setdefault(zone_id, set())) is not None:
            changed.update(tags)
            if len(changed) > MOST_TAGS:
                self._changed_zones[zone_id] = None

    def zone_deleted(self, zone_id: str, epoch: int) -> None:
        """Publish the last epoch of a zone that is deleted; none is written."""
        self._changed_zones.pop(zone_id, None)
        self._deleted_zones.add(zone_id)
        self.add(epochs.zone_key(zone_id), epoch)

    async def write(self, conn: AsyncConnection) -> None:
        """Bump the epochs of the changed zones in the database.

        What the transaction has put on the revocation list is known under its names, which are tags: whoever
        withdraws one need not say so a second time.
        """
        for zone_id, names in revocations.withdrawn(conn).items():
            self.zone_changed(zone_id, names)
        changed = set() if self.keeps_zones else self._changed_zones.keys() - self._deleted_zones
        bumped = await organization_revision.bump_zone_epochs(conn, changed)
        told = {zone_id: tags for zone_id in changed if (tags := self._changed_zones[zone_id]) is not None}
        await zone_changes.add(conn, bumped, told)
        for zone_id, epoch in bumped.items():
            self.add(epochs.zone_key(zone_id), epoch)

    async def announce(self, services: Services, conn: AsyncConnection) -> None:
        """Note which epochs are about to move: the last step before the commit."""
        self._noted = await services.epochs.record_changes(conn, self._epochs)

    async def publish(self, services: Services) -> None:
        """Publish the epochs to all workers, and have this one follow the changes: the first step after."""
        for zone_id in self._changed_zones.keys() | self._deleted_zones:
            # Of a zone that is gone nothing may go on, whatever else has changed in it before.
            tags = None if zone_id in self._deleted_zones else self._changed_zones[zone_id]
            services.zones.changed(zone_id, self._epochs.get(epochs.zone_key(zone_id)), tags)
        await services.epochs.publish(self._epochs, noted=self._noted)
