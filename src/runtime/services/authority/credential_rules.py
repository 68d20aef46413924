"""Rules for new e-mail addresses and passwords."""

from pydantic import TypeAdapter, ValidationError

from runtime.adapters.passwords import MAX_PASSWORD_CHARS
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds.values import Email

MIN_PASSWORD_CHARS = 12
_EMAIL: TypeAdapter[str] = TypeAdapter(Email)


def checked_email(email: str) -> str:
    """The address, without the spaces around it. Raises ValidationFailed."""
    try:
        return _EMAIL.validate_python(email.strip())
    except ValidationError:
        raise ValidationFailed.of("email", "is not an e-mail address") from None


def checked_password(password: str) -> str:
    """A password long enough to be chosen. Raises ValidationFailed."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise ValidationFailed.of("password", f"has fewer than {MIN_PASSWORD_CHARS} characters")
    if len(password) > MAX_PASSWORD_CHARS:
        raise ValidationFailed.of("password", f"has more than {MAX_PASSWORD_CHARS} characters")
    return password
