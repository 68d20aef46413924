"""Panels of the Grafana dashboard as text, for a terminal without Grafana.

    python examples/dashboard.py --prometheus http://127.0.0.1:9090 [--minutes 5] [PANEL ...]

Asks Prometheus what the dashboard in deploy/monitoring asks it, and prints of each series the least, the
greatest and the last value of that time. Without a name, all panels.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

DASHBOARD = Path(__file__).resolve().parents[1] / "deploy" / "monitoring" / "grafana-dashboard.json"
_STEP_SECONDS = 2


def panels(names: list[str]) -> Iterator[dict[str, Any]]:
    """Those of the names, or all that show series. Raises SystemExit for a name that there is not."""
    shown = {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]}
    for name in names or [title for title, panel in shown.items() if panel["type"] != "row"]:
        if name not in shown:
            raise SystemExit(f"the dashboard has no panel `{name}`; it has: {', '.join(shown)}")
        yield shown[name]


def series(prometheus: str, expression: str, minutes: float) -> list[tuple[dict[str, str], list[float]]]:
    """Labels and values of what an expression finds."""
    variables = {"$__rate_interval": "30s", "$__interval": f"{_STEP_SECONDS}s", "$instance": ".*"}
    for variable, value in variables.items():
        expression = expression.replace(variable, value)
    now = time.time()
    answer = httpx.get(
        f"{prometheus}/api/v1/query_range",
        params={"query": expression, "start": now - 60 * minutes, "end": now, "step": _STEP_SECONDS},
        trust_env=False,
    )
    answer.raise_for_status()
    return [
        (found["metric"], [float(value) for _, value in found["values"]])
        for found in answer.json()["data"]["result"]
    ]


def main() -> int:
    """Print the panels."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("panel", nargs="*")
    arguments.add_argument("--prometheus", required=True, help="its base address")
    arguments.add_argument("--minutes", type=float, default=5)
    chosen = arguments.parse_args()
    for panel in panels(chosen.panel):
        print(panel["title"])
        for target in panel["targets"]:
            for labels, values in series(chosen.prometheus, target["expr"], chosen.minutes):
                known = [value for value in values if not math.isnan(value)] or [math.nan]
                name = " ".join(
                    value for label, value in sorted(labels.items()) if label not in ("__name__", "job")
                )
                figures = (
                    f"{what} {figure:g}"
                    for what, figure in (("least", min(known)), ("greatest", max(known)), ("last", known[-1]))
                )
                print(f"  {name or 'all'}: {', '.join(figures)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
