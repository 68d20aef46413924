"""A node of one worker whose machine's clock is off: `python -m tests.chaos.shifted SECONDS`."""

import sys
from datetime import datetime, timedelta

from runtime.app import build, listening_socket
from runtime.cli.worker import serve
from runtime.services.clock import system_time
from runtime.settings import Settings


def main() -> None:
    """Serve as the settings say, with a clock that is so many seconds ahead."""
    shift, settings = timedelta(seconds=float(sys.argv[1])), Settings.load()

    def shifted() -> datetime:
        return system_time() + shift

    serve(build(settings, system=shifted), listening_socket(settings.listen))


if __name__ == "__main__":
    main()
