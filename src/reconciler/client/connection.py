"""Where the server is and who calls it."""

from dataclasses import dataclass, field
from pathlib import Path

from reconciler import variables


class ConnectionIncomplete(ValueError):
    """The server's address or the credential is missing."""


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
        """What tells callers apart in a cache; not a secret by itself, but derived from one."""
        return self.client_id or self.api_key or ""


def find_connection(
    *, server: str | None, api_key_file: str | None = None, organization: str | None = None
) -> Connection:
    """The connection that options and the environment describe; options first.

    Raises:
        ConnectionIncomplete: something is missing, or the key's file cannot be read.
    """
    server = server or variables.read("SERVER")
    if not server:
        raise ConnectionIncomplete(
            f"no server: give `--server URL` or set ZONECTL_SERVER{variables.misspelt()}"
        )
    if not server.startswith(("http://", "https://")):
        raise ConnectionIncomplete(f"`{server}` is not an http or https URL")
    organization = organization or variables.read("ORGANIZATION")
    server = server.rstrip("/")
    if api_key_file:
        try:
            key = Path(api_key_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConnectionIncomplete(
                f"the API key cannot be read from `{api_key_file}`: {error.strerror}"
            ) from error
        return Connection(server, api_key=key, organization=organization)
    if from_environment := variables.read("API_KEY"):
        return Connection(server, api_key=from_environment, organization=organization)
    client_id, secret = variables.read("CLIENT_ID"), variables.read("CLIENT_SECRET")
    if client_id and secret:
        return Connection(server, client_id=client_id, client_secret=secret, organization=organization)
    raise ConnectionIncomplete(
        "no credential: give `--api-key-file FILE`, or set ZONECTL_API_KEY, "
        f"or ZONECTL_CLIENT_ID and ZONECTL_CLIENT_SECRET{variables.misspelt()}"
    )
