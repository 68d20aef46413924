"""Creates users with a password: by registration, by invitation, or by an operator."""

from runtime.domain.kinds.role import User
from runtime.services.authority import admission
from runtime.services.authority.admission import PasswordRegistration, RegisteredBy
from runtime.services.authority.credential_rules import checked_email, checked_password
from runtime.services.container import Services


async def create_local_user(
    services: Services,
    zone_id: str,
    email: str,
    password: str,
    *,
    verified: bool,
    registrar: RegisteredBy = RegisteredBy.OPERATOR,
) -> User:
    """A new user of the zone who signs in with a password.

    Args:
        verified: somebody vouches for the address, so memberships that wait for it are bound.
        registrar: whose doing it is.
    Raises: ValidationFailed for an address or password that will not do; Conflict when the address has a
        user with a password; SignInRefused where the zone makes nobody a user that way; NotFound for an
        unknown zone.
    """
    address, chosen = checked_email(email), checked_password(password)
    zone = await services.zones.get(zone_id)
    hashed = await services.passwords.hash(chosen, tenant=zone.organization_id)
    by = PasswordRegistration(address, hashed, registrar, verified=verified)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        return (await admission.admit(conn, zone.entity, by, now=services.clock())).user
