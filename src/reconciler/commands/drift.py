"""`zonectl drift`: shows what others changed on the server."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.exit_codes import DRIFT, FAILED, USAGE, CommandFailed
from reconciler.kinds import Kinds
from reconciler.plan import detect_drift
from reconciler.report.drift import drift_lines
from reconciler.report.plans import similar_owner_lines
from reconciler.terminal import print_json, print_lines

from .context import CommandContext
from .options import Options


def drift_command(path: Path, options: Options, *, ignored: Sequence[str], unmanaged: bool) -> int:
    """`zonectl drift`: the exit code. Raises CommandFailed.

    Args:
        ignored: kinds whose unmanaged objects may be attached to managed ones without being drift.
        unmanaged: also list the unmanaged objects of these zones.
    """
    with CommandContext.open(path, options, writes=False) as context:
        _require_known(ignored, context.kinds)
        plan = context.plan()
        drift = detect_drift(plan, ignored)
    if options["output"] == "json":
        print_json(drift.as_json(unmanaged=unmanaged))
    else:
        print_lines(
            *drift_lines(drift, unmanaged=unmanaged, place=context.places), *similar_owner_lines(plan)
        )
    return DRIFT if drift else FAILED if drift.incomplete else 0


def _require_known(names: Sequence[str], kinds: Kinds) -> None:
    for name in names:
        if name not in kinds.by_name:
            known = ", ".join(kinds.by_name)
            raise CommandFailed(USAGE, f"`--ignore {name}`: unknown kind; the kinds are {known}")
