"""Logging: one event a line, as text or JSON, never a secret, a code or a query string."""

import logging
import sys
from typing import Any

import structlog
from cachetools import TTLCache

from runtime.settings import Settings

log: Any = structlog.get_logger("zoned")

TROUBLE_EVERY_SECONDS = 5.0
MOST_TROUBLES = 100


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


class ThrottledWarnings:
    """Warnings of what every request meets while it lasts: one line every few seconds, not one a request."""

    def __init__(self) -> None:
        self._logged: TTLCache[tuple[str, str], bool] = TTLCache(MOST_TROUBLES, TROUBLE_EVERY_SECONDS)

    def warn(self, event: str, *, reason: str, **fields: Any) -> None:
        """Log a warning, unless the same was logged for the same reason less than five seconds ago."""
        if (event, reason) in self._logged:
            return
        self._logged[event, reason] = True
        log.warning(event, reason=reason, **fields)


throttled_warnings = ThrottledWarnings()
