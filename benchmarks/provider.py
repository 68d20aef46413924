"""An OAuth provider that refreshes any token at once, as a process of its own; it checks nothing.

`POST /token`: new tokens. `GET /done`: what it has done so far, see `Done`.
"""

import socket
import sys
import time
from dataclasses import asdict, dataclass

from sanic import Sanic
from sanic.config import Config
from sanic.request import Request
from sanic.response import HTTPResponse, json

from runtime.cli.worker import serve

LIFETIME_SECONDS = 3600


@dataclass(frozen=True)
class Done:
    """What the provider has done since it was started.

    Attributes:
        cpu_seconds: how long it has kept a core busy.
    """

    refreshes: int
    cpu_seconds: float


def build() -> Sanic:
    """The application."""
    app = Sanic("provider", config=Config(env_prefix=None), configure_logging=False)
    app.ctx.refreshes = 0

    @app.post("/token")
    async def token(_request: Request) -> HTTPResponse:
        app.ctx.refreshes += 1
        number, lasting = app.ctx.refreshes, {"token_type": "Bearer", "expires_in": LIFETIME_SECONDS}
        return json({"access_token": f"access-{number}", "refresh_token": f"refresh-{number}", **lasting})

    @app.get("/done")
    async def done(_request: Request) -> HTTPResponse:
        return json(asdict(Done(app.ctx.refreshes, time.process_time())))

    return app


if __name__ == "__main__":
    serve(build(), socket.create_server(("127.0.0.1", int(sys.argv[1]))))
