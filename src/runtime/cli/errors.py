"""Error messages for operators when the database or Redis is unavailable."""

from collections.abc import Iterator
from socket import gaierror

from runtime.domain.errors import Unavailable
from runtime.storage.sql.availability import LACKS_TABLES, TAKES_NO_WRITES

OF_REFUSED_KEYS = (
    "enable the key, and permit this service to encrypt and decrypt with it; keys of zones have to be in"
    " ZONED_ZONE_ENCRYPTION_KEYS"
)
OF_UNREACHABLE_KEYS = "check the network, the address and the credentials of the key-management service"

# The state that PostgreSQL gives -> what to do.
_REFUSALS: dict[str, str] = {
    "28P01": "correct the user or the password in ZONED_DATABASE_URL",
    "28000": "correct the user in ZONED_DATABASE_URL, or allow it: `pg_hba.conf`, and LOGIN of the role",
    "3D000": "create the database, then run `zoned init`; or correct its name in ZONED_DATABASE_URL",
    "53300": "raise `max_connections` of PostgreSQL, or run fewer workers",
    "57P03": "PostgreSQL is starting, stopping or recovering: try again shortly",
}
# What the database and the short-lived state say of themselves -> what to do, where no cause tells.
_REMEDIES = {
    "the short-lived state cannot be reached": "start Redis, or correct ZONED_REDIS_URL",
    "the short-lived state takes no writes": (
        "raise `maxmemory` of Redis, or point ZONED_REDIS_URL to its primary"
    ),
    "the database cannot be reached": "start the database, or correct ZONED_DATABASE_URL",
    "the database does not answer": "end what occupies the database, or restart it",
    TAKES_NO_WRITES: "free the disk of the database, or point ZONED_DATABASE_URL to the primary",
    LACKS_TABLES: "wait for the restore that is under way, or restore a back-up",
    "the database account lacks privileges": (
        "grant the account of ZONED_DATABASE_URL all tables of the database"
    ),
}
_ELSE = "try again; if it stays, the log of the database or of Redis has the cause"


def reason_of(refusal: Unavailable) -> str:
    """What is wrong, and why."""
    causes = list(_causes(refusal))
    why = refusal.internal or str(causes[-1] if len(causes) > 1 else "")
    return (refusal.detail + (f": {why}" if why else "")).rstrip(".")  # drivers write sentences


def remedy_of(refusal: Unavailable) -> str:
    """What to do: what follows from the cause, if anything does."""
    return advice(refusal) or _REMEDIES.get(refusal.detail, _ELSE)


def advice(failure: BaseException) -> str:
    """What to do, where that follows from the cause of a failure."""
    return next(filter(None, map(_advice, _causes(failure))), "")


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
