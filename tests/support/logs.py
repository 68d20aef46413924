"""Log lines of the service in a test, whatever earlier tests have set up of logging."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.testing import capture_logs

from runtime.logs import log


@contextmanager
def logged_lines() -> Iterator[list[Any]]:
    """The lines of every level that are logged within, as mappings with `event`.

    The service's logger keeps what it was set up with at its first line, so that is put aside.
    """
    kept, settings = vars(log).pop("bind", None), structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(0), cache_logger_on_first_use=False
    )
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.configure(**settings)
        if kept is not None:
            vars(log)["bind"] = kept
