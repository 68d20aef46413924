"""Logging: one event a line, as text or JSON, never a secret, a code or a query string."""

import logging
import re
import sys
from typing import Any

import structlog
from cachetools import TTLCache
from structlog.typing import EventDict

from runtime.settings import Settings

log: Any = structlog.get_logger("zoned")

TROUBLE_EVERY_SECONDS = 5.0
_QUOTED = re.compile(r"`[^`]*`?")
OUTAGE_EVERY_SECONDS = 60.0
MOST_TROUBLES = 1_000


def log_to_stderr() -> None:
    """Send events to standard error, until `configure_logs` says more: programs read what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


def configure_logs(settings: Settings) -> None:
    """Send events to standard error in the chosen form."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            add_former_event,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(message)s"
    )


# Events that were renamed -> the names that they had before. Their lines carry both for one release.
RENAMED_EVENTS = {
    "request refused": "refused",
    "a worker exited unexpectedly": "a worker ended without being asked",
    "a replacement worker was started": "a worker takes its place",
    "the supervisor process has exited: this worker stops": (
        "the process that started this worker is gone: it stops, too"
    ),
    "request aborted: not answered within the shutdown timeout": (
        "a request was not answered in time and is cut off"
    ),
    "the system clock differs from the database's clock, which the service uses": (
        "this machine's clock differs from the database's, by which the service goes"
    ),
    "the database was restored to an earlier state: the cached data of this process is reloaded": (
        "the database was set back: whatever this process knows of it is read again"
    ),
    "due jobs not read": "jobs not looked at",
    "job not started": "job not begun",
    "job lease not released": "lease not given back",
    "token events not written yet": "decisions not written yet",
    "message delivery abandoned": "given up",
    "message not delivered yet": "not delivered yet",
    "a provider issues no tokens now: they are refreshed once it does": "an upstream token was not refreshed",
    "a provider refuses to refresh tokens: check its settings": "an upstream token was not refreshed",
    "a provider has refused a refresh token": "an upstream token was not refreshed",
}


def add_former_event(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Add the deprecated name of a renamed event as the field `renamed_from`."""
    if (former := RENAMED_EVENTS.get(event["event"])) is not None:
        event["renamed_from"] = former
    return event


class ThrottledWarnings:
    """Lines about what every request may meet: one line every few seconds, not one a request."""

    def __init__(self, every_seconds: float = TROUBLE_EVERY_SECONDS) -> None:
        self._logged: TTLCache[tuple[str, str, str], bool] = TTLCache(MOST_TROUBLES, every_seconds)

    def warn(self, event: str, *, reason: str, about: str = "", **fields: Any) -> None:
        """Log a warning, unless the same was logged a moment ago, for the same reason and about the same.

        Args:
            about: what the warning is about, where that can be many; it is in the fields as well.
        """
        if self._is_new(event, reason, about):
            log.warning(event, reason=reason, **fields)

    def note(self, event: str, *, reason: str, **fields: Any) -> None:
        """Log at info, unless the same was logged a moment ago for a reason of that sort.

        What stands in backticks may be a caller's, who could have a reason of its own for each request.
        """
        if self._is_new(event, _QUOTED.sub("``", reason), ""):
            log.info(event, reason=reason, **fields)

    def _is_new(self, event: str, reason: str, about: str) -> bool:
        if (event, reason, about) in self._logged:
            return False
        self._logged[event, reason, about] = True
        return True


throttled_warnings = ThrottledWarnings()
stranger_notes = ThrottledWarnings()  # on their own: nobody is to crowd out the warnings
outage_warnings = ThrottledWarnings(OUTAGE_EVERY_SECONDS)
