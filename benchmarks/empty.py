"""The yardstick: a Sanic route that reads a form and answers, run as the service is run, and nothing else."""

import socket
import sys
from functools import partial

from sanic import Sanic
from sanic.config import Config
from sanic.request import Request
from sanic.response import HTTPResponse, json
from sanic.worker.loader import AppLoader


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
    loaded = AppLoader(factory=partial(build)).load()
    bound = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    bound.set_inheritable(True)
    loaded.prepare(sock=bound, workers=1, single_process=True, motd=False, access_log=False)
    Sanic.serve_single(primary=loaded)
