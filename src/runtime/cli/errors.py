"""Error messages for operators when the database or Redis is unavailable."""

from collections.abc import Iterator
from socket import gaierror

from runtime.domain.errors import Unavailable

# The state that PostgreSQL gives -> what to do.
_REFUSALS: dict[str, str] = {
    "28P01": "correct the user or the password in ZONED_DATABASE_URL",
    "28000": "correct the user in ZONED_DATABASE_URL, or allow it: `pg_hba.conf`, and LOGIN of the role",
    "3D000": "create the database, then run `zoned init`; or correct its name in ZONED_DATABASE_URL",
    "53300": "raise `max_connections` of PostgreSQL, or run fewer workers",
    "57P03": "PostgreSQL is starting, stopping or recovering: try again shortly",
}


def explain(refusal: Unavailable) -> str:
    """A refusal in one line: what is wrong, why, and what to do where that follows from the cause."""
    told = remedy_of(refusal)
    return reason_of(refusal) + (f"; {told}" if told else "")


def reason_of(refusal: Unavailable) -> str:
    """What is wrong, and why."""
    causes = list(_causes(refusal))
    why = refusal.internal or str(causes[-1] if len(causes) > 1 else "")
    return refusal.detail + (f": {why}" if why else "")


def remedy_of(refusal: Unavailable) -> str:
    """What to do, where that follows from the cause."""
    return next(filter(None, map(_advice, _causes(refusal))), "")


def _advice(cause: BaseException) -> str:
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return _REFUSALS.get(str(state), "")
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there: start the server, or correct the address in the settings"
    if isinstance(cause, FileNotFoundError):
        return "there is no such socket: start the server, or correct the address in the settings"
    if isinstance(cause, gaierror):
        return "the host is not known: correct the address in the settings"
    if isinstance(cause, TimeoutError):
        return "no answer: check the address, and that no firewall blocks this machine"
    if "unable to open database file" in str(cause):
        return "check that its directory exists and that this account may write to it"
    return ""


def _causes(failure: BaseException) -> Iterator[BaseException]:
    """A failure, and what it was raised for."""
    found: BaseException | None = failure
    while found is not None:
        yield found
        found = found.__cause__ or getattr(found, "orig", None)
