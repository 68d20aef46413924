"""The rule that an application is ended while nobody active is accountable for it.

An ended application is to every endpoint what a deleted one is, for as long as it is ended: both caches that
applications are read through, `ApplicationCache` and `ClientCache`, ask here and give out none. What ends an
application is a management write in the zone (a user's status, a group's members, the application, the
setting) and so bumps the zone's epoch, which every request revalidates. What ends that may be a sign-in, by
which an invited user becomes a member: so an ended application that is asked for is read anew.
"""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain import cache_tags
from runtime.domain.kinds.application import Application
from runtime.storage.sql import accountability


@dataclass(frozen=True, slots=True)
class AccountabilityRule:
    """The rule of one zone.

    Attributes:
        is_required: the zone setting `require_active_accountable`.
    """

    is_required: bool

    async def is_active(self, conn: AsyncConnection, application: Application) -> bool:
        """Tell whether an application may act and be acted for."""
        return not self.is_required or await accountability.is_answered_for(conn, application)

    async def active(self, conn: AsyncConnection, application: Application | None) -> Application | None:
        """The application; None when there is none, or it is ended."""
        is_there = application is not None and await self.is_active(conn, application)
        return application if is_there else None

    def tags(self, application: Application) -> set[str]:
        """The cache tags of an application, and of whether it is ended."""
        tags = {application.id, application.identifier, cache_tags.shown(application.id)}
        names_somebody = application.accountable_user_id or application.accountable_group_id
        return tags | ({cache_tags.PEOPLE} if self.is_required and names_somebody else set())
