"""Sign-in and registration with a password, for a zone without an identity provider."""

from contextlib import suppress

from runtime.adapters.passwords import PasswordsBusy
from runtime.domain.errors import Conflict, ServiceError, SignInUnavailable, ValidationFailed
from runtime.domain.kinds.role import User
from runtime.domain.oauth.decision_events import DecisionOutcome
from runtime.services.authority import admission, password_changes, users
from runtime.services.authority.admission import RegisteredBy
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import throttling
from runtime.services.zones import CachedZone
from runtime.storage.sql import users as storage
from runtime.storage.sql.users import PasswordUser

_BUSY = "too many sign-ins at this moment; try again shortly"


class WrongPassword(ServiceError):
    """No such user, or not this password: which of them is not told."""

    code, status = "wrong_password", 400

    def __init__(self) -> None:
        super().__init__("wrong e-mail address or password")


async def authenticate(
    services: Services, zone: CachedZone, email: str, password: str, *, address: str
) -> PasswordUser:
    """The user with that address and password. An unknown user costs as much time as a wrong password.

    Whether they may sign in is decided when their session begins.

    Raises: WrongPassword; TooManyTries; SignInRefused where nobody has a password; SignInUnavailable.
    """
    admission.require_local(zone.entity)
    account = email.strip()
    await throttling.check_password_rate(services, zone.id, account, address)
    async with services.database.reading() as conn:
        found = await storage.find_by_password(conn, zone_id=zone.id, email=account)
    try:
        matches = await services.passwords.verify(
            found.password_hash if found else None, password, tenant=zone.organization_id
        )
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None
    if found is not None:
        current_decision().user_id = found.user.id
    if found is None or not matches:
        raise WrongPassword
    await throttling.reset_password_rate(services, zone.id, account, address)
    with suppress(PasswordsBusy):  # then at another sign-in
        return await _with_renewed_hash(services, zone, found, password)
    return found


async def register(services: Services, zone: CachedZone, email: str, password: str, *, address: str) -> User:
    """A new user, made by themselves; the address stays unverified, so nothing that waits for it is bound.

    Raises: SignInRefused when the zone wants an invitation; ValidationFailed; TooManyTries;
        SignInUnavailable.
    """
    admission.require_open_registration(zone.entity)
    await throttling.check_password_rate(services, zone.id, "registration", address)
    await throttling.check_registration_rate(services, zone.id)
    try:
        return await users.create_local_user(
            services, zone.id, email, password, verified=False, registrar=RegisteredBy.THEMSELVES
        )
    except Conflict:
        raise ValidationFailed.of(
            "email", "cannot be registered; if this address is yours, sign in instead"
        ) from None
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None


async def change(
    services: Services, zone: CachedZone, signed_in: SignedInUser, *, current: str, new: str, address: str
) -> None:
    """Replace the password of a user who knows the present one, and sign them out of every other browser.

    Raises: WrongPassword; TooManyTries; ValidationFailed for a password that will not do; SignInRefused;
        SignInUnavailable.
    """
    found = await authenticate(services, zone, signed_in.user.email, current, address=address)
    if found.user.id != signed_in.user.id:
        raise WrongPassword
    try:
        await password_changes.replace(services, zone.entity, found, new, keep=signed_in.session.id)
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None
    current_decision().succeed(DecisionOutcome.PASSWORD_CHANGED)


async def _with_renewed_hash(
    services: Services, zone: CachedZone, found: PasswordUser, password: str
) -> PasswordUser:
    """The user with the password under today's parameters, where its hash was made with weaker ones."""
    if not services.passwords.needs_rehash(found.password_hash):
        return found
    hashed = await services.passwords.hash(password, tenant=zone.organization_id)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        is_kept = await storage.replace_password(conn, found, password_hash=hashed, now=services.clock())
    return PasswordUser(found.user, hashed) if is_kept else found
