"""`zonectl explain`: whether an application would get a token now, for a user or for itself, and why not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.exit_codes import FAILED, REFUSED, USAGE, CommandFailed
from reconciler.kinds import Origin
from reconciler.output_documents import EXPLANATION
from reconciler.report.explanations import explanation_lines, unresolved_lines
from reconciler.terminal import print_json, print_lines

from .context import load, open_zones
from .options import ExplainOptions


def explain_command(options: ExplainOptions) -> int:
    """`zonectl explain`: the exit code, 5 where the exchange would be refused.

    Raises: CommandFailed, also where a name is that of nothing in the zone, or of several objects.
    """
    asked: dict[str, Any] = {
        "application": options["application"],
        "resource": options["resource"],
        "via": list(options.get("via", ())),
    }
    if (user := options.get("user")) is not None:
        asked["user"] = user
    elif asked["via"]:
        raise CommandFailed(
            USAGE,
            "`--via` needs `--user`: without one it is a token of the application's own (client credentials),"
            " which comes through no other application",
        )
    if scopes := options.get("scope"):
        asked["scopes"] = list(scopes)
    places = _policy_places(options.get("config"))
    with open_zones(options) as api:
        zone = api.zone(options.get("zone"))
        answer = api.explain(str(zone["id"]), asked)
    for policy in (
        each for hop in answer["hops"] for each in (*hop["policies"], *hop.get("left_out_by", ()))
    ):
        source = policy.get("source")
        if source and not source.get("file") and (place := places.get((source["owner"], source["name"]))):
            source["file"], source["line"] = place.path, place.line
    document = {"format": EXPLANATION, "zone": zone["slug"], **answer}
    if unresolved := answer.get("unresolved"):
        raise CommandFailed(FAILED, *unresolved_lines(unresolved), document=document)
    if options["output"] == "json":
        print_json(document)
    else:
        print_lines(*explanation_lines(answer, asked))
    return 0 if answer["allowed"] else REFUSED


def _policy_places(path: Path | None) -> Mapping[tuple[str, str], Origin]:
    """Owner and name of each policy in the manifests -> where it is; none for a name in several zones."""
    if path is None:
        return {}
    configuration, _, settings = load(path)
    if settings.owner is None:
        return {}
    found: dict[tuple[str, str], Origin] = {}
    repeated: set[tuple[str, str]] = set()
    for manifest in configuration.manifests:
        if manifest.kind.name == "Policy":
            key = settings.owner, manifest.name
            if key in found:
                repeated.add(key)
            found[key] = manifest.origin
    return {key: origin for key, origin in found.items() if key not in repeated}
