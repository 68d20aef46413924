"""The yardstick: a Sanic route that reads a form and answers, served by Sanic alone.

Nothing of the service is in it: a yardstick that it served by its own connections would grow with them.
"""

import socket
import sys

from sanic import Sanic
from sanic.config import Config
from sanic.request import Request
from sanic.response import HTTPResponse, json


def build() -> Sanic:
    """The application with its one route."""
    app = Sanic("empty", config=Config(env_prefix=None), configure_logging=False)

    @app.post("/empty")
    async def empty(request: Request) -> HTTPResponse:
        return json({"fields": len(request.form or {})})

    @app.get("/readyz")
    async def readyz(_request: Request) -> HTTPResponse:
        return json({"status": "ok"})

    return app


if __name__ == "__main__":
    bound = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    build().run(sock=bound, single_process=True, access_log=False, motd=False)
