"""Invitation e-mail."""

from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.outbox import mail

_ROLES = {
    OrganizationRole.ADMIN: "an administrator",
    OrganizationRole.MEMBER: "a member",
    OrganizationRole.VIEWER: "a viewer",
}
_TEXT = """\
{inviter} invites you to act for "{organization}" as {role}.

To accept, open this address and follow what it says:

    {page}

If a program accepts for you, this is what it needs; a GET shows the invitation, a POST to the
same address with /accept behind it accepts:

    {api}

The invitation is good until {until}. Whoever has one of these addresses can accept it, so keep them to
yourself. If you did not expect this message, you can leave it unanswered.
"""


async def enqueue_mail(
    unit: UnitOfWork, invitation: Invitation, token: str, organization: str, zone: Zone
) -> None:
    """Enqueue the mail; it is sent after the commit.

    Args:
        organization: its name.
        zone: the organization's own, where the person registers.
    """
    text = _TEXT.format(
        inviter=mail.one_line(invitation.inviter_name),
        organization=mail.one_line(organization),
        role=_ROLES[invitation.role],
        page=f"{zone.protocols.oauth2.issuer}/oauth/sign-up?invitation={token}",
        api=f"{unit.services.settings.public_url.rstrip('/')}/invitations/{token}",
        until=f"{invitation.expires_at:%Y-%m-%d %H:%M} UTC",
    )
    await mail.enqueue(
        unit.conn,
        unit.services.outbox,
        organization_id=unit.organization_id,
        recipient=invitation.email,
        subject=f"Invitation to {mail.one_line(organization)}",
        text=text,
    )

    async def send() -> None:
        unit.services.outbox.notify()

    unit.after_commit(send)
