"""Secrets, read at the moment they are written and shown to nobody."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler import variables

MAX_SECRET_BYTES = 64 * 1024


class SecretMissing(Exception):
    """The source that a manifest names has no secret."""


class Secret:
    """A clear-text secret that cannot be printed, logged, compared or put into JSON by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Secret(...)"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("a secret cannot be pickled")

    def reveal(self) -> str:
        """The clear text. For the request body alone."""
        return self._value


def read_secret(reference: Mapping[str, Any], root: Path) -> Secret:
    """The secret that a reference leads to.

    Args:
        root: what relative paths are relative to.

    Raises:
        SecretMissing: there is none, or it is empty.
    """
    if name := reference.get("from_env"):
        if name.upper().startswith(variables.PREFIX):
            # Else a manifest could have it sent to an identity provider of its author's choice.
            raise SecretMissing(f"`{name}` is zonectl's own, and no secret of a manifest")
        value = os.environ.get(name)
        if not value:
            raise SecretMissing(f"the environment variable `{name}` is not set")
        return Secret(value)
    path = str(reference.get("from_file", ""))
    try:
        with Path(root, path).open("rb") as stream:
            content = stream.read(MAX_SECRET_BYTES + 1)
        text = content.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise SecretMissing(f"the secret's file `{path}` cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecretMissing(f"the secret's file `{path}` is not text") from error
    if not text or len(content) > MAX_SECRET_BYTES:
        raise SecretMissing(f"the secret's file `{path}` is empty or too large")
    return Secret(text)


def reveal(value: object) -> str:
    """For the JSON encoder: the text of a secret. Raises TypeError for anything else."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
