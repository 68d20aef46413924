"""Invitations to act for an organization."""

from datetime import datetime
from typing import Annotated

from runtime.domain.kinds.base import PERMISSIONS, Kind, Listing, OrganizationEntity, PageShape, Verb
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.organization import ORGANIZATION
from runtime.domain.kinds.values import Email, Id, InvitationStatus, OrganizationRole, Timestamp


class Invitation(OrganizationEntity):
    """An invitation to become a user of the organization, for the holder of the token in the e-mail.

    Attributes:
        address: the e-mail address in lower case: what tells two invitations of one person apart from others.
        inviter_name: what the person is shown of who invited them.
        token_hash: of the token, which is nowhere but in the mail.
        zone_user_id: once accepted without a sign-in: the user made for it, who may choose a password once.
    """

    created_by: Annotated[Id, Mark.SERVER]
    email: Annotated[Email, Mark.FIXED]
    expires_at: Annotated[Timestamp, Mark.SERVER]
    organization_id: Annotated[Id, Mark.SERVER]
    role: Annotated[OrganizationRole, Mark.FIXED]
    status: Annotated[InvitationStatus, Mark.SERVER]
    address: Annotated[str, Mark.INTERNAL]
    inviter_name: Annotated[str, Mark.INTERNAL]
    token_hash: Annotated[bytes, Mark.INTERNAL, Mark.UNIQUE, Mark.GLOBAL]
    zone_user_id: Annotated[Id | None, Mark.INTERNAL] = None
    permissions: PERMISSIONS = None

    def is_pending(self, now: datetime) -> bool:
        """Tell whether it can be accepted."""
        return self.status is InvitationStatus.PENDING and now < self.expires_at

    def as_of(self, now: datetime) -> "Invitation":
        """The invitation with the status it has at that time: `expired` is not stored."""
        if self.status is not InvitationStatus.PENDING or now < self.expires_at:
            return self
        return self.model_copy(update={"status": InvitationStatus.EXPIRED})


INVITATION = Kind(
    entity=Invitation,
    collection="invitations",
    operations="invitations",
    parent=ORGANIZATION,
    item="invitation_id",
    verbs=frozenset({Verb.LIST, Verb.CREATE, Verb.DELETE}),
    listing=Listing(envelope=PageShape.ORGANIZATION, expands=("permissions", "total_count")),
    created=201,
    indexes=(("address",),),
)
