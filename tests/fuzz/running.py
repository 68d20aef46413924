"""Runs schemathesis against a live server, from the OpenAPI document that it serves itself."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.support.server import Server
from tests.support.zone_tokens import zone_token

ROOT = Path(__file__).parents[2]

# `zones.delete` has a zone of its own, so that the others are not emptied under the rest of the run.
_CONFIG = """
hooks = "tests.fuzz.hooks"
seed = {seed}
continue-on-failure = true
workers = 1

[auth.openapi.bearer]
bearer = "{key}"

[auth.openapi.zone]
bearer = "{zone_token}"

[parameters]
"path.zoneId" = "{zone}"
"path.organization_id" = "{organization}"

[generation]
# A NUL is refused in every body and query: saying so would take a pattern on every string.
allow-x00 = false
no-shrink = true
database = "none"
max-examples = {examples}

[checks.positive_data_acceptance]
# `valid_data_acceptance` of tests/fuzz/hooks.py is that check, with the refusals that no schema can foresee.
enabled = false

[phases.coverage]
# One method that is not served stands for all: the router does not tell them apart.
unexpected-methods = ["TRACE"]

[checks.negative_data_rejection]
# The built-in list, and two more ways to refuse: what a change is based on, and how long an address is.
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-operation-id = "zones.delete"
parameters = {{ "path.zoneId" = "{spare}" }}
"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `report` is what schemathesis says about it."""

    passed: bool
    report: str


def fuzz(server: Server, directory: Path, *, phases: str, examples: int, seed: int = 1) -> Outcome:
    """Send what the document allows and what it forbids, and check every answer.

    Args:
        directory: where configuration is written.
        phases: of schemathesis, with commas: `examples`, `coverage`, `fuzzing`, `stateful`.
        examples: how many requests an operation gets at most in the random phases.
    """
    with httpx.Client(base_url=server.url, headers=server.headers, trust_env=False) as client:
        zone, spare = (client.post("/zones", json={"name": name}).json()["id"] for name in ("fuzz", "spare"))
    config = directory / "schemathesis.toml"
    config.write_text(
        _CONFIG.format(
            seed=seed,
            key=server.api_key,
            zone_token=zone_token(server),
            zone=zone,
            spare=spare,
            organization=server.organization_id,
            examples=examples,
        )
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
            *(f"{server.url}/openapi.json", "--phases", phases, "--warnings", "off"),
        ],
        cwd=directory,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "", "HOME": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode == 0, done.stdout + done.stderr)
