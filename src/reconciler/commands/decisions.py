"""`zonectl decisions`: the decision records of sign-ins and token requests."""

from collections.abc import Iterator

from reconciler.client import Rejected
from reconciler.exit_codes import FAILED, USAGE, CommandFailed
from reconciler.output_documents import DECISIONS
from reconciler.report.decisions import decision_lines
from reconciler.terminal import print_json, print_lines

from .context import open_zones
from .options import DecisionOptions


def decisions_command(options: DecisionOptions) -> int:
    """`zonectl decisions`: the exit code, 0 also where nothing was found. Raises CommandFailed."""
    with open_zones(options) as api:
        zone = api.zone(options.get("zone"))
        try:
            records = list(api.decisions(str(zone["id"]), _asked(options), limit=options["limit"]))
        except Rejected as refusal:
            raise _refused_option(refusal, options) or refusal from None
        found = [{**each, "zone": zone["slug"]} for each in records]
    if options["output"] == "json":
        print_json({"format": DECISIONS, "decisions": found})
    else:
        print_lines(*decision_lines(found, limit=options["limit"]))
    return 0


def _refused_option(refusal: Rejected, options: DecisionOptions) -> CommandFailed | None:
    """The failure for the option whose value the server does not take; None for another refusal.

    The server checks the values: a newer one knows more events and outcomes. A word that it does not know is
    a usage error, and a name that nothing in the zone has, or several objects, is a failure.
    """
    for detail in refusal.details:
        for option in ("event", "outcome"):
            if detail.get("field") == f"filter[{option}]":
                return CommandFailed(USAGE, f"`--{option}` {detail.get('message')}")
        for option, name in _names(options):
            if detail.get("field") == f"filter[{option}]":
                return CommandFailed(FAILED, f"`--{option} {name}`: {detail.get('message')}")
    return None


def _asked(options: DecisionOptions) -> list[tuple[str, str]]:
    """The query parameters that the options mean."""
    asked = [("filter[request_id]", each) for each in options.get("request", ())]
    asked += [("filter[outcome]", each) for each in options.get("outcome", ())]
    asked += [("filter[event]", each) for each in options.get("event", ())]
    asked += [(f"filter[{option}]", name) for option, name in _names(options)]
    if (since := options.get("since")) is not None:
        asked.append(("since", since))
    if (until := options.get("until")) is not None:
        asked.append(("until", until))
    return asked


def _names(options: DecisionOptions) -> Iterator[tuple[str, str]]:
    """The options that name an object of the zone, with the name."""
    named = {
        "user": options.get("user"),
        "application": options.get("application"),
        "resource": options.get("resource"),
    }
    yield from ((option, name) for option, name in named.items() if name is not None)
