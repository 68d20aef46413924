"""What else a zone answers under load: introspection, metadata and keys, and its own legs of a sign-in."""

import base64
import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from acme import Server

from benchmarks import servers
from benchmarks.exchange import CALLBACK, TOOLS, Stage, empty_rate, prepare, put, row
from benchmarks.load import Load
from benchmarks.table import Row

# More sessions than connections: whoever redeems a code holds the session it stands below. And each is
# handed out at most 300 codes a minute, which is no setting.
PEOPLE, BROWSERS = 6, 16


def measure(directory: Path) -> Iterator[Row]:
    """Rows for both forms of storage."""
    yield from _on("SQLite", Server(directory / "tokens-sqlite"), directory)
    with (
        servers.postgresql(directory / "tokens-pg") as database,
        servers.redis(directory / "tokens") as state,
    ):
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "tokens-postgresql", settings), directory)


def _on(storage: str, server: Server, directory: Path) -> Iterator[Row]:
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        config = directory / f"tokens-config-{server.port}"
        stage = prepare(server, config, people=PEOPLE, browsers=BROWSERS)
        chosen = loads(stage)
        empty = empty_rate(chosen["introspection"].body)
        for what, load in chosen.items():
            yield row(f"{what}, {storage}", put(load), empty)


def loads(stage: Stage) -> dict[str, Load]:
    """What is asked, by name. Sessions redeem codes in turn."""
    issuer, caller = stage.agent.issuer, stage.tool_server
    form = {"token": stage.subject, "client_id": caller.client_id, "client_secret": caller.secret or ""}
    return {
        "introspection": Load(f"{issuer}/oauth/introspect", urlencode(form)),
        "metadata": Load(f"{issuer}/.well-known/openid-configuration"),
        "keys": Load(f"{issuer}/.well-known/jwks.json"),
        "sign-in, our legs": _sign_in(stage),
    }


def _sign_in(stage: Stage) -> Load:
    """People who are signed in go to the agent: authorize answers with a code, which is redeemed."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": stage.agent.client_id,
        "redirect_uri": CALLBACK,
        "scope": "openid",
        "state": secrets.token_urlsafe(16),
        "nonce": secrets.token_urlsafe(16),
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": TOOLS,
    }
    redeemed = {
        "grant_type": "authorization_code",
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
        "client_id": stage.agent.client_id,
        "client_secret": stage.agent.secret or "",
    }
    return Load(
        f"{stage.agent.issuer}/oauth/authorize?{urlencode(query)}",
        cookies=stage.cookies,
        then_path=f"{urlsplit(stage.agent.issuer).path}/oauth/token",
        then_body=f"{urlencode(redeemed)}&code={{code}}",
    )
