"""Renders recorded decisions that a plan would change, above its actions; what would be refused is first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from reconciler.kinds.values import parse_instant
from reconciler.plan import ChangedDecisions, ChangedRequest, NamedRule, ZoneDecisionImpact
from reconciler.terminal import Line, Styled

from .value_diff import as_text, counted

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_DecidingRules = Callable[[ChangedRequest], Iterable[str]]
_POLICY = "policy"
_REASONS = {
    "dependency": "the application does not declare the resource as a dependency",
    "scope": "the resource does not offer it",
    "user": "the user is gone or may not act",
    "application": "the application is gone or may not act",
    "resource": "the resource is gone",
}
_LEFT_OUT = {
    "gone": "whose user, application or resource is gone",
    "too_many": "beyond what one dry run replays",
}


def decision_impact_lines(found: Sequence[ZoneDecisionImpact]) -> Iterator[Line]:
    """Requests that would be refused, then those that would be allowed, and how faithful the replay was."""
    changing = sorted(filter(None, found), key=lambda each: (-each.loses.decisions, -each.gains.decisions))
    for each in changing:
        if each.loses.decisions:
            head = f"! requests of the last {_period(each)} would be refused in zone {each.zone}: "
            yield Styled(head, "red"), _extent(each.loses, each)
            yield from _example_lines(each.loses, _refusing_rules)
    for each in changing:
        if each.gains.decisions:
            were = f"requests of the last {_period(each)} that were refused"
            yield Styled(f"! {were} would be allowed in zone {each.zone}: ", "red"), _extent(each.gains, each)
            yield from _example_lines(each.gains, _allowing_rules)
    for each in changing:
        yield Styled(f"    {_faithfulness(each)}", dim=True)
    for each in found:
        if each.recorded and not each:
            yield Styled(_nothing_changes(each), dim=True)


def decision_impact_summary(found: Iterable[ZoneDecisionImpact]) -> str:
    """The end of a summary line; empty when no recorded decision changes."""
    zones = list(found)
    refused = sum(each.loses.decisions for each in zones)
    allowed = sum(each.gains.decisions for each in zones)
    return (f"; {counted(refused, 'recorded request')} would be refused" if refused else "") + (
        f"; {counted(allowed, 'refused request')} would be allowed" if allowed else ""
    )


def _period(found: ZoneDecisionImpact) -> str:
    """`30 days`, `hour`: what follows "the last"."""
    hours, days = round(found.period / _HOUR), round(found.period / _DAY)
    if hours < 48:
        return counted(hours, "hour") if hours > 1 else "hour"
    return counted(days, "day")


def _extent(changed: ChangedDecisions, of: ZoneDecisionImpact) -> str:
    """How many decisions change, and of how many users, applications and resources."""
    counts = ((changed.users, "user"), (changed.applications, "application"), (changed.resources, "resource"))
    parts = _listed([counted(number, word) for number, word in counts if number])
    told = f"{changed.decisions:,} of {counted(of.replayed, 'recorded decision')}"
    return f"{told}, of {parts}" if parts else told


# --- requests


def _example_lines(changed: ChangedDecisions, rules: _DecidingRules) -> Iterator[Line]:
    for each in changed.examples:
        scopes = f" (scope{'s' * (len(each.scopes) > 1)} {_listed(each.scopes)})" if each.scopes else ""
        request = f"{_requester(each)} for {_shown(each.resource)}{scopes}"
        yield f"      {request}: {', '.join([_times(each), *rules(each)])}"
    more = changed.decisions - sum(each.decisions for each in changed.examples)
    if changed.examples and more > 0:
        yield f"      ... and {counted(more, 'more decision')}"


def _requester(each: ChangedRequest) -> str:
    """Who asks for whom, and through which applications: the one that the user signed in to first."""
    through = [_shown(actor) for actor in reversed(each.actors[1:])]
    application = _shown(each.application) + (f" through {_listed(through)}" if through else "")
    user = each.user_email or each.user
    return f"{_shown(user)} by {application}" if user else f"{application} on its own behalf"


def _times(each: ChangedRequest) -> str:
    last = parse_instant(each.last_at)
    day = last.date().isoformat() if last is not None else each.last_at
    return f"once, on {day}" if each.decisions == 1 else f"{each.decisions:,} times, last on {day}"


def _refusing_rules(each: ChangedRequest) -> Iterator[str]:
    """What would refuse it; where no rule permits it any more, the rules that do now."""
    if (reason := _reason(each)) is not None:
        yield f"refused because {reason}"
    elif each.after:
        yield f"refused by {_rules(each.after)}"
    elif each.before:
        yield f"no longer allowed by {_rules(each.before)}"


def _allowing_rules(each: ChangedRequest) -> Iterator[str]:
    """The rules that would allow it, and what refuses it now."""
    if each.after:
        yield f"allowed by {_rules(each.after)}"
    if (reason := _reason(each)) is not None:
        yield f"refused so far because {reason}"
    elif each.before:
        yield f"no longer refused by {_rules(each.before)}"


def _reason(each: ChangedRequest) -> str | None:
    """Why it is refused, where that is not for the policies."""
    if each.refused_by in (None, _POLICY):
        return None
    return _REASONS.get(each.refused_by, f"of another reason ({_shown(each.refused_by)})")


def _rules(found: Iterable[NamedRule]) -> str:
    return _listed([f"{_shown(each.policy)} ({_rule(each.rule)})" for each in found])


def _rule(name: str) -> str:
    """A rule by its `@id`, or by its place among the rules of the text, counted from 1 for people."""
    return f"rule {int(name) + 1}" if name.isdecimal() else _shown(name)


# --- faithfulness


def _faithfulness(each: ZoneDecisionImpact) -> str:
    told = f"replayed {each.replayed:,} of {counted(each.recorded, 'decision')} in zone {each.zone}"
    return "; ".join([told, *_left_out(each), *_reproduced(each), *_assumed(each)])


def _nothing_changes(each: ZoneDecisionImpact) -> str:
    """One line; what makes it less certain is added where there is something."""
    of = f" of {each.recorded:,}" if each.replayed != each.recorded else ""
    what = f"no recorded decision of the last {_period(each)} changes in zone {each.zone}"
    told = f"{what}: {each.replayed:,}{of} replayed"
    differing = _reproduced(each) if each.reproduced != each.replayed else ()
    return "; ".join([told, *_left_out(each), *differing, *_assumed(each)])


def _left_out(found: ZoneDecisionImpact) -> Iterator[str]:
    parts = [
        f"{number:,} {_LEFT_OUT.get(reason, f'for another reason ({_shown(reason)})')}"
        for reason, number in found.not_replayed.items()
        if number
    ]
    if parts:
        yield f"left out: {_listed(parts)}"


def _reproduced(found: ZoneDecisionImpact) -> Iterator[str]:
    if found.replayed:
        share = "all" if found.reproduced >= found.replayed else _percent(found.reproduced / found.replayed)
        yield f"the present policies decide {share} of the replayed ones as was recorded"


def _percent(share: float) -> str:
    """A share of less than all."""
    return f"{min(round(100 * share, 1), 99.9):.1f} %"


def _assumed(found: ZoneDecisionImpact) -> Iterator[str]:
    if found.unrecorded:
        names = _listed([f"`{each}`" for each in found.unrecorded])
        yield f"rules look at {names}, which decisions do not record and the replay assumes"


# --- words


def _shown(value: str) -> str:
    """A name as it is, where it is one word; otherwise in quotes, so that it looks like nothing else."""
    return value if value.isprintable() and value and " " not in value else as_text(value)


def _listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
