"""watch as it is called."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.reconciler.apply.texts import ROLE, ZONE
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.hostile.conftest import heed_interrupts


class TestWatch:
    def test_runs_at_once_and_on_every_save_until_interrupted(
        self, config: Any, server: FakeServer, world: World, tmp_path: Path
    ) -> None:
        """Several saves in a moment are one run; Ctrl-C ends it with 130."""
        config.write("zone.yaml", ZONE)
        out = tmp_path / "out"
        with out.open("wb") as stream:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from reconciler.cli import main; main()",
                    "watch",
                    str(config),
                    "--apply",
                ],
                stdout=stream,
                stderr=stream,
                preexec_fn=heed_interrupts,
            )
        try:
            _until(lambda: world.entities, out)
            config.write("role.yaml", ROLE.replace("description", "descripton"))
            _until(lambda: b"did you mean `description`?" in out.read_bytes(), out)
            config.write("role.yaml", ROLE)
            _until(lambda: any(each["handle"] == "reader" for each in list(world.entities.values())), out)
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        finally:
            process.kill()
            process.wait()


def _until(done: Callable[[], Any], out: Path) -> None:
    give_up = threading.Event()
    timer = threading.Timer(20, give_up.set)
    timer.start()
    while not done():
        assert not give_up.wait(0.05), out.read_text()
    timer.cancel()
