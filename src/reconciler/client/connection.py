"""Resolves the connection: the server's address and the caller's credential.

Both come from outside the repository. `server:` in a repository may be proposed by an untrusted contributor,
and is only compared with the address: it never decides where a credential is sent.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler import environment_variables
from reconciler.files import read_named

from .known_servers import KnownServers, RecordUnusable, normal_server

MAX_KEY_BYTES = 64 * 1024


class ConnectionIncomplete(ValueError):
    """The server's address or the credential is missing."""


class ServerRefused(ValueError):
    """The credential is not sent to that server until the command line names it."""


class ConfiguredServer(NamedTuple):
    """The server that a repository names. `place` is where, as in `config/zonectl.yaml`."""

    server: str
    place: str


@dataclass(frozen=True)
class Connection:
    """The server's base URL, and an API key or a service account's credential.

    `organization` is an id or a label; None when the caller has only one.
    """

    server: str
    api_key: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    organization: str | None = None

    @property
    def caller(self) -> str:
        """Identifies the caller in a cache; not a secret by itself, but derived from one."""
        return self.client_id or self.api_key or ""

    @property
    def what(self) -> str:
        """The credential, for people."""
        return "API key" if self.api_key else "service account"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret values of the connection."""
        return tuple(each for each in (self.api_key, self.client_secret) if each)


def find_connection(
    *,
    server: str | None,
    known: KnownServers,
    claim: ConfiguredServer | None = None,
    api_key_file: str | None = None,
    organization: str | None = None,
) -> Connection:
    """The connection that options, the environment and this user's record describe; in that order.

    Args:
        server: the option of the command line.
        known: the server that each credential was used with before.
        claim: the server that the repository names; it must agree, unless the option overrules it.

    Raises:
        ConnectionIncomplete: something is missing, or the key's file cannot be read.
        ServerRefused: the address is not from outside the repository, or they disagree.
    """
    credential = _find_credential(api_key_file)
    found = _find_server(server, credential, known, claim)
    return Connection(
        found,
        api_key=credential.api_key,
        client_id=credential.client_id,
        client_secret=credential.client_secret,
        organization=organization or environment_variables.read("ORGANIZATION"),
    )


def _find_credential(api_key_file: str | None) -> Connection:
    """The credential, before the server is known."""
    if api_key_file:
        try:
            key = read_named(api_key_file, at_most=MAX_KEY_BYTES).decode("utf-8").strip()
        except OSError as error:
            raise ConnectionIncomplete(
                f"the API key cannot be read from `{api_key_file}`: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise ConnectionIncomplete(
                f"the API key cannot be read from `{api_key_file}`: not text"
            ) from error
        if not key:
            raise ConnectionIncomplete(f"the API key cannot be read from `{api_key_file}`: it is empty")
        return Connection("", api_key=key)
    if from_environment := environment_variables.read("API_KEY"):
        return Connection("", api_key=from_environment)
    client_id, secret = environment_variables.read("CLIENT_ID"), environment_variables.read("CLIENT_SECRET")
    if client_id and secret:
        return Connection("", client_id=client_id, client_secret=secret)
    raise ConnectionIncomplete(
        "no credential: give `--api-key-file FILE`, or set ZONECTL_API_KEY, "
        f"or ZONECTL_CLIENT_ID and ZONECTL_CLIENT_SECRET{environment_variables.misspelt()}"
    )


def _find_server(
    option: str | None, credential: Connection, known: KnownServers, claim: ConfiguredServer | None
) -> str:
    if option:
        return _normal(option)
    try:
        remembered = known.find(credential.caller)
    except RecordUnusable as error:
        raise ServerRefused(
            f"the recorded server of this {credential.what} cannot be read: {error}; "
            "nothing was sent: name the server with `--server URL`"
        ) from error
    named = environment_variables.read("SERVER")
    if not named and not remembered:
        raise _nameless(claim)
    server = _normal(named) if named else str(remembered)
    if remembered not in (None, server):
        raise ServerRefused(
            f"ZONECTL_SERVER is `{server}`, and this {credential.what} was used with `{remembered}` before; "
            f"nothing was sent: if it belongs to the other server now, say so with `--server {server}`"
        )
    if claim is not None and _normal_or_none(claim.server) != server:
        source = "ZONECTL_SERVER is" if named else f"this {credential.what} was used with"
        raise ServerRefused(
            f"{claim.place} names the server `{claim.server}`, and {source} `{server}`; "
            f"nothing was sent: correct the file, or choose with `--server {server}`"
        )
    return server


def _nameless(claim: ConfiguredServer | None) -> ConnectionIncomplete:
    if claim is None:
        return ConnectionIncomplete(
            f"no server: give `--server URL` or set ZONECTL_SERVER{environment_variables.misspelt()}"
        )
    return ConnectionIncomplete(
        f"{claim.place} names the server `{claim.server}`, but a repository cannot choose it; nothing "
        "was sent: if it is correct, confirm it with `--server URL` or ZONECTL_SERVER"
        f"{environment_variables.misspelt()}"
    )


def _normal(server: str) -> str:
    try:
        return normal_server(server)
    except ValueError as error:
        raise ConnectionIncomplete(str(error)) from error


def _normal_or_none(server: str) -> str | None:
    try:
        return normal_server(server)
    except ValueError:
        return None
