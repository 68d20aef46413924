"""Run the measurements and print their table; `--only listing,plan` chooses among them."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from benchmarks import exchange, growth, listing, manifests, peers, revocation, tokens, vault, writes
from benchmarks.table import Row, show

PARTS = (
    "exchange",
    "writes",
    "tokens",
    "vault",
    "revocation",
    "listing",
    "growth",
    "validate",
    "plan",
    "apply",
)


def main() -> int:
    """Measure what was asked for. 2 when that is nothing we know."""
    arguments = argparse.ArgumentParser(prog="make bench", description=__doc__)
    arguments.add_argument("--only", default=",".join(PARTS), help="comma-separated parts to measure")
    arguments.add_argument("--peers", action="store_true", help="compare with node-oidc-provider, too")
    options = arguments.parse_args()
    only = set(options.only.split(","))
    if options.peers:
        only.add("peers")
    if unknown := only - {*PARTS, "peers"}:
        print(f"there is no part `{min(unknown)}`; the parts are {', '.join(PARTS)}, peers", file=sys.stderr)
        return 2
    if "peers" in only:
        try:
            peers.install()
        except peers.PeerUnavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    started = time.monotonic()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="zonewright-bench-") as directory:
        parts = [peers.measure(Path(directory))] if "peers" in only else []
        parts += [exchange.measure(Path(directory))] if "exchange" in only else []
        parts += [writes.measure(Path(directory))] if "writes" in only else []
        parts += [tokens.measure(Path(directory))] if "tokens" in only else []
        parts += [vault.measure(Path(directory))] if "vault" in only else []
        parts += [revocation.measure(Path(directory))] if "revocation" in only else []
        parts += [listing.measure(Path(directory))] if "listing" in only else []
        parts += [growth.measure(Path(directory))] if "growth" in only else []
        parts += [manifests.measure(Path(directory), only)] if only & {"validate", "plan", "apply"} else []
        for part in parts:
            for row in part:
                rows.append(row)
                print(f"{time.monotonic() - started:4.0f} s  {row.what}: {row.rate:,.0f}/s", file=sys.stderr)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
