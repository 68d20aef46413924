"""Replacing a user's password: what it had let in ends with it."""

from runtime.domain.errors import SignInRefused
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services import epochs
from runtime.services.authority.admission.checks import hold_active, require_local
from runtime.services.authority.credential_rules import checked_password
from runtime.services.authority.session_end_events import SessionEndEvent, record
from runtime.services.container import Services
from runtime.services.outbox import logout_notices, mail
from runtime.storage.sql import directory
from runtime.storage.sql import users as storage
from runtime.storage.sql.users import PasswordUser

REPLACED = "the password has been changed meanwhile; start again"
_SUBJECT = "Your password was changed"
_TEXT = """\
The password of {email} at "{zone}" was changed on {at}. Everybody who was signed in with it elsewhere is
signed out.

If that was not you, ask an administrator of "{zone}" to disable your account.
"""


async def replace(
    services: Services, zone: Zone, found: PasswordUser, password: str, *, keep: str | None = None
) -> None:
    """Give a user another password, end what they had signed in to, and tell them by mail.

    Args:
        found: the user with the password as it was looked up.
        keep: the session that the change is made in; it stays, with those below it.
    Raises: ValidationFailed for a password that will not do; SignInRefused for a user who is disabled, or
        whose password somebody has replaced since; PasswordsBusy.
    """
    require_local(zone)
    user = found.user
    hashed = await services.passwords.hash(checked_password(password), tenant=zone.organization_id)
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        await hold_active(conn, user)
        now = services.clock()
        if not await storage.replace_password(conn, found, password_hash=hashed, now=now):
            raise SignInRefused(REPLACED)
        bumped.update(await epochs.bump_user(conn, zone.id, user.id))
        ended = await directory.end_sessions(conn, user.id, zone_id=zone.id, now=now, keep=keep)
        bumped.update({epochs.session_key(each): epoch for each, epoch in ended.items()})
        await logout_notices.enqueue(conn, services.outbox, ended, zone_id=zone.id)
        endings = [
            SessionEndEvent(
                event=DecisionEvent.PASSWORD_CHANGE,
                organization_id=zone.organization_id,
                zone_id=zone.id,
                user_id=user.id,
                session_id=each,
            )
            for each in sorted(ended)
        ]
        await record(conn, endings, now=now)
        await mail.enqueue(
            conn,
            services.outbox,
            organization_id=zone.organization_id,
            recipient=user.email,
            subject=_SUBJECT,
            text=_TEXT.format(
                email=user.email, zone=mail.one_line(zone.name), at=f"{now:%Y-%m-%d %H:%M} UTC"
            ),
        )
    services.outbox.notify()
