"""Remembers which server each credential was used with, like `known_hosts`; never inside a repository."""

import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import orjson

from reconciler import environment_variables
from reconciler.files import Root, read_private, write_private

_PORTS = {"http": 80, "https": 443}


class RecordUnusable(Exception):
    """The record exists and is not reliable; the message says why."""


def normal_server(url: str) -> str:
    """The one spelling of a server's base URL. Raises ValueError when it is none."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"`{url}` is not an http or https URL")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            f"`{url}` is not a server's base URL: leave out what is before `@` and after `?` or `#`"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port not in (None, _PORTS[parts.scheme]) else ""
    return urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))


def state_directory() -> Path | None:
    """`ZONECTL_STATE_DIR`, else `zonewright` in the user's state directory; None when there is none."""
    if given := environment_variables.read("STATE_DIR"):
        return Path(given).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        # Spec: XDG base directories, a relative path is invalid and ignored.
        return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "zonewright"
    except RuntimeError:
        return None


class KnownServers:
    """One small file for each credential, named by a digest of it.

    *outside*: the repository; a record that lies in it is not this user's, and is neither read nor written.
    """

    def __init__(self, directory: Path | None, outside: Root) -> None:
        self._directory = None if directory is None or directory in outside else directory / "servers"

    def find(self, credential: str) -> str | None:
        """The server that the credential was used with before. Raises Unusable."""
        if self._directory is None:
            return None
        file = self._file(self._directory, credential)
        try:
            return normal_server(orjson.loads(read_private(file))["server"])
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RecordUnusable(f"`{file}`: {error.strerror}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RecordUnusable(f"`{file}` is damaged") from error

    def remember(self, credential: str, server: str) -> None:
        """Record the server. If it cannot be written, the next use counts as a first one."""
        if self._directory is None:
            return
        try:
            if self.find(credential) == server:
                return
        except RecordUnusable:
            pass  # the command line has named the server: the record is written anew
        try:
            write_private(self._file(self._directory, credential), orjson.dumps({"server": server}) + b"\n")
        except OSError:
            return

    @staticmethod
    def _file(directory: Path, credential: str) -> Path:
        return directory / f"{hashlib.sha256(credential.encode()).hexdigest()[:40]}.json"
