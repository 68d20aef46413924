"""An OAuth provider that refreshes any token at once, as a process of its own; it checks nothing.

`POST` anything: new tokens. `GET` anything: what it has done so far, see `Done`.
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from dataclasses import asdict, dataclass

import uvloop

LIFETIME_SECONDS = 3600


@dataclass(frozen=True)
class Done:
    """What the provider has done since it was started.

    Attributes:
        cpu_seconds: how long it has kept a core busy.
    """

    refreshes: int
    cpu_seconds: float


class _Connection(asyncio.Protocol):
    refreshes = 0  # of all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if not end or len(rest) < length:
            return
        self.buffer = rest[length:]
        body = json.dumps(self._tokens() if head.startswith(b"POST") else asdict(self._done())).encode()
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        self.transport.write(answer % (len(body), body))  # type: ignore[attr-defined]

    @staticmethod
    def _tokens() -> dict[str, object]:
        _Connection.refreshes += 1
        number = _Connection.refreshes
        lasting = {"token_type": "Bearer", "expires_in": LIFETIME_SECONDS}
        return {"access_token": f"access-{number}", "refresh_token": f"refresh-{number}", **lasting}

    @staticmethod
    def _done() -> Done:
        return Done(_Connection.refreshes, time.process_time())


async def _serve(port: int) -> None:
    bound = socket.create_server(("127.0.0.1", port), backlog=256)
    server = await asyncio.get_running_loop().create_server(_Connection, sock=bound)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(int(sys.argv[1])))
