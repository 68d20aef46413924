"""`zonectl decisions`: the decision records of sign-ins and token requests."""

from reconciler.client import Api, Rejected
from reconciler.exit_codes import USAGE, CommandFailed
from reconciler.output_documents import DECISIONS
from reconciler.report.decisions import decision_lines
from reconciler.terminal import print_json, print_lines

from .context import open_zones
from .options import DecisionOptions

# Option -> the collection that it names something in, and the members that it may be called by.
_NAMED = {
    "user": ("users", ("identifier", "email")),
    "application": ("applications", ("identifier",)),
    "resource": ("resources", ("identifier",)),
}


def decisions_command(options: DecisionOptions) -> int:
    """`zonectl decisions`: the exit code, 0 also where nothing was found. Raises CommandFailed."""
    with open_zones(options) as api:
        zone = api.zone(options.get("zone"))
        asked = _asked(api, str(zone["id"]), options)
        try:
            records = list(api.decisions(str(zone["id"]), asked, limit=options["limit"]))
        except Rejected as refusal:
            raise _misused(refusal) or refusal from None
        found = [{**each, "zone": zone["slug"]} for each in records]
    if options["output"] == "json":
        print_json({"format": DECISIONS, "decisions": found})
    else:
        print_lines(*decision_lines(found, limit=options["limit"]))
    return 0


def _misused(refusal: Rejected) -> CommandFailed | None:
    """The usage error for an event or an outcome that the server does not know; None for another refusal.

    The server checks the values: a newer one knows more of them.
    """
    for detail in refusal.details:
        for option in ("event", "outcome"):
            if detail.get("field") == f"filter[{option}]":
                return CommandFailed(USAGE, f"`--{option}` {detail.get('message')}")
    return None


def _asked(api: Api, zone_id: str, options: DecisionOptions) -> list[tuple[str, str]]:
    """The query parameters that the options mean."""
    asked = [("filter[request_id]", each) for each in options.get("request", ())]
    asked += [("filter[outcome]", each) for each in options.get("outcome", ())]
    asked += [("filter[event]", each) for each in options.get("event", ())]
    named = (
        ("user", options.get("user")),
        ("application", options.get("application")),
        ("resource", options.get("resource")),
    )
    for option, name in named:
        if name is not None:
            collection, members = _NAMED[option]
            asked.append((f"filter[{option}_id]", api.find_id(zone_id, collection, name, *members)))
    if (since := options.get("since")) is not None:
        asked.append(("since", since))
    if (until := options.get("until")) is not None:
        asked.append(("until", until))
    return asked
