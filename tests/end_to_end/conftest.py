"""End to end: the programs as processes, driven from outside through `examples/acme.py`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.end_to_end.operated import Server


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Makes servers with an organization in them, not yet started; stops them in the end."""
    made: list[Server] = []

    def make(**settings: str) -> Server:
        server = Server(tmp_path / f"data-{len(made)}", settings)
        made.append(server)
        server.init()
        return server

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    """A running server on its embedded default."""
    made = make_server()
    made.start()
    return made
