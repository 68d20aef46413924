"""Requests at a steady rate while things break: what the guide for operators runs where applications would.

    python examples/traffic.py CLIENT --for RESOURCE [--rate 20] < SUBJECT_TOKEN

Exchanges the subject token again and again until it is told to stop (SIGTERM or Ctrl-C), and prints what
became of that. A request starts when it is due, whether earlier ones were answered or not. One that gets no
answer, or 502, 503 or 504, is sent again for half a minute, as an application should: a token exchange may be
repeated. Exits with 1 when a request was lost: it got no token in that time, or was refused. Settings as for
client.py.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx
from acme import Application, exchange_form, trust
from client import application

RETRY_SECONDS = 30.0
PAUSE_SECONDS = 0.2
_TRY_AGAIN = {502, 503, 504}


@dataclass
class Outcome:
    """What became of the requests.

    Attributes:
        answered: with a token.
        again: how often a request was sent again, by what it got before.
        lost: requests that never got a token, by what they got last.
        slowest: the longest time from when a request was due to its token, in seconds.
    """

    answered: int = 0
    again: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def __str__(self) -> str:
        again = ", ".join(f"{count} after {what}" for what, count in sorted(self.again.items())) or "none"
        lost = ", ".join(f"{count} with {what}" for what, count in sorted(self.lost.items())) or "none"
        return (
            f"answered: {self.answered}; sent again: {again}; lost: {lost}; "
            f"the slowest took {self.slowest:.1f} s"
        )


async def exchange(client: httpx.AsyncClient, app: Application, form: dict[str, str], to: Outcome) -> None:
    """One request, until it gets a token or its time is over."""
    due_at = time.monotonic()
    while True:
        try:
            answer = await client.post(f"{app.issuer}/oauth/token", data=form)
        except httpx.TransportError as failure:
            got, lasting = type(failure).__name__, False
        else:
            if answer.status_code == 200:
                to.answered += 1
                to.slowest = max(to.slowest, time.monotonic() - due_at)
                return
            got, lasting = str(answer.status_code), answer.status_code not in _TRY_AGAIN
        if lasting or time.monotonic() - due_at > RETRY_SECONDS:
            to.lost[got] += 1
            return
        to.again[got] += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def traffic(app: Application, form: dict[str, str], rate: float) -> Outcome:
    """Send *rate* requests a second until the process is told to stop; waits for their answers."""
    stop, outcome, loop = asyncio.Event(), Outcome(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = httpx.AsyncClient(verify=trust(), trust_env=False, timeout=10)
    async with client, asyncio.TaskGroup() as group:
        began_at, sent = loop.time(), 0
        while not stop.is_set():
            group.create_task(exchange(client, app, form, outcome))
            sent += 1
            try:
                async with asyncio.timeout_at(began_at + sent / rate):
                    await stop.wait()
            except TimeoutError:
                continue
    return outcome


def main() -> int:
    """Send until told to stop. 1 when a request was lost."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("client")
    arguments.add_argument("--for", dest="resource", required=True)
    arguments.add_argument("--rate", type=float, default=20, help="requests a second")
    chosen = arguments.parse_args()
    app = application(chosen.client)
    form = exchange_form(sys.stdin.readline().strip(), chosen.resource) | app.proof()
    outcome = asyncio.run(traffic(app, form, chosen.rate))
    print(outcome)
    return 1 if outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
