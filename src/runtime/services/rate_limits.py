"""Every rate limit of the service as data: its name, its amount, and what it is counted per.

`rate_limiter.RateLimiter` enforces them; docs/limits.md is written from `ALL`.
"""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

from runtime.settings import Settings

MAX_SECRET_GUESSES = 20
FREE_PASSWORD_TRIES = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many in a window of time.

    Attributes:
        name: of the limit in docs/limits.md; the keys of its counts begin with it.
        counts: what is counted, in the plural, for docs/limits.md.
        per: what is counted separately.
        amount: how many are allowed; or the name of the setting with the number, where 0 means no limit.
        factor: the amount is multiplied by it, and rounded up.
        seconds: the length of a window.
        per_process: counted in each process, not in the shared state.
        is_aligned: windows begin at multiples of their length; otherwise with the first count.
        beyond: what happens to a request beyond the limit.
    """

    name: str
    counts: str
    per: str
    amount: int | str
    factor: Fraction = Fraction(1)
    seconds: int = _MINUTE
    per_process: bool = False
    is_aligned: bool = True
    beyond: str = "429"

    def amount_under(self, settings: Settings) -> int:
        """How many these settings allow; 0 for no limit."""
        base: int = getattr(settings, self.amount) if isinstance(self.amount, str) else self.amount
        return -(-base * self.factor.numerator // self.factor.denominator)

    def window(self, now: float) -> int:
        """The number of the window that this instant is in."""
        return int(now) // self.seconds

    def ends_at(self, now: float) -> float:
        """When the window of this instant ends, in seconds since 1970."""
        return (now // self.seconds + 1) * self.seconds

    def seconds_left(self, now: float) -> int:
        """Seconds until the next window, rounded up."""
        return int(self.ends_at(now) - now) + 1

    def key(self, zone_id: str, *per: str, now: float) -> str:
        """The key of the shared count: `name:zone:digest`, and the number of an aligned window."""
        digest = sha256("\0".join(per).encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{self.name}:{zone_id}:{digest}"
        return f"{key}:{self.window(now)}" if self.is_aligned else key


_ADDRESS, _ZONE, _CLIENT_AT_ADDRESS = "an address at a zone", "a zone", "an application at an address"
_SIGN_INS = "sign_ins_a_minute"
_HALF, _FOURFOLD, _TENFOLD = Fraction(1, 2), Fraction(4), Fraction(10)

# Requests that prove nothing. Only their refusals are counted.
REFUSED_REQUESTS = RateLimit(
    "refusals",
    "refused requests of public or self-registered clients",
    "an address, or the user meant, at a zone",
    "refusals_a_minute",
    beyond="429 instead of the error; valid requests are answered",
)
_REFUSAL_ROWS = "rows for refused requests of public clients and browsers, and for inactive tokens"
_COUNTED = "only counted; one row a minute has the sum for each code"
RECORDED_REFUSALS_OF_ADDRESS = RateLimit(
    "recorded-refusals-address",
    _REFUSAL_ROWS,
    _ADDRESS,
    "recorded_refusals_a_minute",
    per_process=True,
    beyond=_COUNTED,
)
RECORDED_REFUSALS = RateLimit(
    "recorded-refusals",
    _REFUSAL_ROWS,
    _ZONE,
    "zone_recorded_refusals_a_minute",
    per_process=True,
    beyond=_COUNTED,
)

# Client authentication (RFC 6749 section 2.3), assertions (RFC 7523) and DPoP proofs (RFC 9449).
CLIENT_SECRET_GUESSES = RateLimit(
    "guess",
    "wrong client secrets",
    "a client and an address together",
    MAX_SECRET_GUESSES,
    beyond="429 for that client from there, for the rest of the minute",
)
CLIENT_ASSERTIONS = RateLimit(  # each is remembered until it expires
    "assertions", "assertions of clients that registered themselves", _ADDRESS, 600, per_process=True
)
DPOP_PROOFS = RateLimit(
    "proofs",
    "DPoP proofs in requests without client authentication",
    "an address, or a bound key",
    6000,
    per_process=True,
)

# Dynamic client registration (RFC 7591) and client ID metadata documents.
REGISTRATIONS = RateLimit(  # hosted agents share an address
    "register", "registrations of clients", _ADDRESS, 60
)
REGISTRATIONS_IN_ZONE = RateLimit("register-zone", "registrations of clients", _ZONE, 600)
NEW_CLIENTS = RateLimit("new-clients", "clients that are new to a zone", _ZONE, 20_000, seconds=_DAY)
METADATA_DOCUMENT_FETCHES = RateLimit(  # a document that is fresh costs none
    "documents", "descriptions of clients fetched", _ZONE, 300
)

# The authorization endpoint, pushed authorization requests (RFC 9126) and the codes they end in.
_BEGUN = "sign-ins begun, and authorize requests that come to nothing"
_PUSHED = "authorize requests kept for a browser that comes next"
AUTHORIZATION_REQUESTS = RateLimit("authorize", _BEGUN, _ADDRESS, _SIGN_INS)
AUTHORIZATION_REQUESTS_OF_CLIENT = RateLimit("authorize-client", _BEGUN, _CLIENT_AT_ADDRESS, _SIGN_INS, _HALF)
AUTHORIZATION_REQUESTS_IN_ZONE = RateLimit(
    "authorize-zone", _BEGUN, _ZONE, _SIGN_INS, _TENFOLD, per_process=True
)
PUSHED_REQUESTS = RateLimit("push", _PUSHED, _ADDRESS, _SIGN_INS)
PUSHED_REQUESTS_OF_CLIENT = RateLimit("push-client", _PUSHED, _CLIENT_AT_ADDRESS, _SIGN_INS, _HALF)
PUSHED_REQUESTS_OF_CONFIDENTIAL_CLIENT = RateLimit(  # one address pushes for all of its users
    "push-back-end", _PUSHED, "an application with a secret", _SIGN_INS, _TENFOLD
)
PUSHED_REQUESTS_IN_ZONE = RateLimit(
    "push-zone", f"{_PUSHED}, of public clients", _ZONE, _SIGN_INS, _TENFOLD, per_process=True
)
# Counted in this order: for the client at the address, for the address, for the zone.
AUTHORIZATION_REQUEST_LIMITS = (
    AUTHORIZATION_REQUESTS_OF_CLIENT,
    AUTHORIZATION_REQUESTS,
    AUTHORIZATION_REQUESTS_IN_ZONE,
)
PUSHED_REQUEST_LIMITS = (PUSHED_REQUESTS_OF_CLIENT, PUSHED_REQUESTS, PUSHED_REQUESTS_IN_ZONE)
FORMS = RateLimit(  # a sign-in takes a form for the password, maybe tried again, and one for the consent
    "forms-sent", "forms of a zone's pages sent", _ADDRESS, _SIGN_INS, _FOURFOLD
)
AUTHORIZATION_CODES = RateLimit(
    "codes", "codes handed out", "a browser that is signed in", 300, per_process=True
)

# Passwords and registration of users.
_TRIED = "passwords tried, and users who register"
PASSWORDS = RateLimit("passwords", _TRIED, _ADDRESS, _SIGN_INS)
PASSWORDS_IN_ZONE = RateLimit("passwords-zone", _TRIED, _ZONE, _SIGN_INS, _TENFOLD, per_process=True)
PASSWORD_TRIES = RateLimit(
    "tries",
    "tries for an account",
    "an account and an address together",
    FREE_PASSWORD_TRIES,
    seconds=_HOUR,
    is_aligned=False,
    beyond="429, and each further try waits twice as long as the last, up to 300 s",
)
_LINKS = "links to reset a password requested"
PASSWORD_RESETS = RateLimit("password-resets", _LINKS, _ADDRESS, 20, seconds=_HOUR)
PASSWORD_RESETS_TO_ADDRESS = RateLimit(
    "password-resets-to-one", _LINKS, "a mail address at a zone", 5, seconds=_DAY
)
PASSWORD_RESETS_IN_ZONE = RateLimit("password-resets-zone", _LINKS, _ZONE, 1_000, seconds=_HOUR)
SIGN_UPS = RateLimit("sign-ups", "users who register by themselves", _ZONE, 10_000, seconds=_DAY)

# Whoever asks for the same user, resource and scopes again is given the token that is kept in Redis, which
# has room for all organizations.
CACHED_TOKENS = RateLimit(
    "cached-tokens",
    "exchanged tokens kept in Redis, to be given out again",
    "an organization",
    6_000,
    per_process=True,
    beyond="issued all the same, and made anew when it is asked for again",
)

# The management API. Invitations are mails that a stranger gets in the service's name.
INVITATION_LOOKUPS = RateLimit("invitation-looks", "looks at invitations", "an address", 120)
INVITATIONS = RateLimit("invitations", "invitations sent", "an organization", 500, seconds=_DAY)
INVITATIONS_TO_ADDRESS = RateLimit(
    "invitations-to-one", "invitations sent", "a mail address in an organization", 5, seconds=_DAY
)
NEW_ORGANIZATIONS = RateLimit("organizations-made", "organizations made", "an account", 20, seconds=_DAY)
DRY_RUN_MILLISECONDS = RateLimit(  # half of every hour; the plan of a large configuration takes seconds
    "dry-run-milliseconds",
    "milliseconds that dry runs take",
    "a caller",
    30 * 60_000,
    seconds=_HOUR,
    per_process=True,
)
BUNDLE_WRITES = RateLimit("bundle-writes", "changes of policy bundles", "a user", 30)

ALL: tuple[RateLimit, ...] = tuple(each for each in globals().values() if isinstance(each, RateLimit))
