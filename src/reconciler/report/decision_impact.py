"""Renders recorded decisions that a plan would change, above its actions; what would be refused is first."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from reconciler.kinds.values import parse_instant
from reconciler.plan import ChangedDecisions, ChangedRequest, NamedRule, ZoneDecisionImpact
from reconciler.terminal import Line, Styled

from .rule_names import place_of
from .value_diff import as_text, counted

# Letters of other scripts are quoted, for some look like a space.
_PLAIN = re.compile(r"[\w.,:;@/+=~*&?%#!$'-]+", re.ASCII)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_DecidingRules = Callable[[ChangedRequest], Iterable[str]]
_POLICY = "policy"
_REASONS = {
    "dependency": "the application does not declare the resource as a dependency",
    "scope": "the resource does not offer the scope",
    "user": "the user is gone or may not act",
    "application": "the application is gone or may not act",
    "resource": "the resource is gone",
}
_ASSUMED = {
    "acr": "no `acr`",
    "authenticated_at": "a sign-in at the time of the request",
    "now": "the present time",
    "scopes": "all scopes of the resource",
}
_LEFT_OUT = {
    "gone": "whose user, application or resource is gone",
    "too_many": "for which the dry run had no time",
    "unavailable": "of a zone whose encryption key is not available",
}
_GONE = "gone"
_NONE_LOOKED_AT = "the dry run did not get to its records; the plan may refuse requests"


def decision_impact_lines(found: Sequence[ZoneDecisionImpact]) -> Iterator[Line]:
    """Requests that would be refused, then those that would be allowed, and how faithful the replay was."""
    changing = sorted(filter(None, found), key=lambda each: (-each.loses.decisions, -each.gains.decisions))
    for each in changing:
        if each.loses.decisions:
            would = _either(each.loses, "would be refused", "would get fewer scopes")
            yield (
                Styled(f"! {_requests(each)} {would} in zone {_shown(each.zone)}: ", "red"),
                _extent(each.loses, each),
            )
            yield from _example_lines(each.loses, _refusing_rules)
    for each in changing:
        if each.gains.decisions:
            would = _either(each.gains, "would be allowed", "would get more scopes")
            yield (
                Styled(f"! {_requests(each)} {would} in zone {_shown(each.zone)}: ", "red"),
                _extent(each.gains, each),
            )
            yield from _example_lines(each.gains, _allowing_rules)
    for each in changing:
        for line in _faithfulness(each):
            yield Styled(f"    {line}", dim=True)
    for each in found:
        none_replayed = f"! no recorded request of zone {_shown(each.zone)} is replayed"
        if not each.replayed and set(each.not_replayed) - {_GONE}:
            yield Styled(f"{none_replayed}; ", "red"), *_left_out(each), "; the plan may refuse requests"
        elif each.recorded and not each:
            yield Styled(_nothing_changes(each), dim=True)
        elif not each.recorded and not each.complete:
            yield Styled(f"{none_replayed}: ", "red"), _NONE_LOOKED_AT


def decision_impact_summary(found: Iterable[ZoneDecisionImpact]) -> str:
    """The end of a summary line; empty when no recorded request is decided differently."""
    zones = list(found)
    lost, gained = ([getattr(each, side) for each in zones] for side in ("loses", "gains"))
    told = (
        (sum(each.whole for each in lost), "recorded request", "would be refused"),
        (sum(each.of_scopes for each in lost), "recorded request", "would get fewer scopes"),
        (sum(each.whole for each in gained), "refused request", "would be allowed"),
        (sum(each.of_scopes for each in gained), "recorded request", "would get more scopes"),
    )
    return "".join(f"; {counted(number, what)} {would}" for number, what, would in told if number)


def _requests(found: ZoneDecisionImpact) -> str:
    return f"requests of the last {_period(found)}"


def _either(changed: ChangedDecisions, whole: str, in_part: str) -> str:
    """What would become of the requests: of all of them the one or the other, or the one of some."""
    words = [words for words, number in ((whole, changed.whole), (in_part, changed.of_scopes)) if number]
    return ", or ".join([words[0], *(each.removeprefix("would ") for each in words[1:])])


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
    told = f"{changed.decisions:,} of {counted(of.replayed, 'recorded request')}"
    return f"{told}, of {parts}" if parts else told


# --- requests


def _example_lines(changed: ChangedDecisions, rules: _DecidingRules) -> Iterator[Line]:
    for each in _merged(changed.examples):
        scopes = f" (scope{'s' * (len(each.scopes) > 1)} {_listed(each.scopes)})" if each.scopes else ""
        yield f"      {_request(each)}{scopes}: {_times(each)}"
        if why := ", ".join(rules(each)):
            yield f"        {why}"
    more = changed.decisions - sum(each.decisions for each in changed.examples)
    if changed.examples and more > 0:
        yield f"      ... and {counted(more, 'more request')}"


def _merged(examples: Iterable[ChangedRequest]) -> Iterator[ChangedRequest]:
    """The requests with those counted together that read the same, as a sign-in and the exchange after it."""
    found: dict[ChangedRequest, ChangedRequest] = {}
    for each in examples:
        key = replace(each, decisions=0, last_at="")
        if (known := found.get(key)) is not None:
            last = max(known.last_at, each.last_at, key=lambda at: parse_instant(at) or _LONG_AGO)
            found[key] = replace(known, decisions=known.decisions + each.decisions, last_at=last)
        else:
            found[key] = each
    yield from sorted(found.values(), key=lambda each: -each.decisions)


def _request(each: ChangedRequest) -> str:
    """Who asks for whom and for what, and through which applications: the one of the sign-in first."""
    through = [_shown(actor) for actor in reversed(each.actors[1:])]
    chain = f" through {_listed(through)}" if through else ""
    user = each.user_email or each.user
    whom = _shown(user) if user else "itself"
    return f"{_shown(each.application)} for {whom} at {_shown(each.resource)}{chain}"


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
    place = place_of(name)
    return f"rule {place}" if place is not None else _shown(name)


# --- faithfulness


def _faithfulness(each: ZoneDecisionImpact) -> list[str]:
    zone = _shown(each.zone)
    told = f"replayed {each.replayed:,} of {counted(each.recorded, 'recorded request')} in zone {zone}"
    return ["; ".join([told, *_reproduced(each)]), *_left_out(each), *_assumed(each)]


def _nothing_changes(each: ZoneDecisionImpact) -> str:
    """One line; what makes it less certain is added where there is something."""
    of = f" of {each.recorded:,}" if each.replayed != each.recorded else ""
    what = (
        f"no recorded request of the last {_period(each)} is decided differently in zone {_shown(each.zone)}"
    )
    told = f"{what}: {each.replayed:,}{of} replayed"
    differing = _reproduced(each) if each.reproduced != each.replayed else ()
    return "; ".join([told, *_left_out(each), *differing, *_assumed(each)])


def _left_out(found: ZoneDecisionImpact) -> Iterator[str]:
    parts = [
        f"{number:,} {_LEFT_OUT.get(reason, f'for another reason ({_shown(reason)})')}"
        for reason, number in found.not_replayed.items()
        if number
    ]
    if not found.complete:
        parts.append(f"all from before the last {_period(found)}")
    if parts:
        yield f"left out: {_listed(parts)}"


def _reproduced(found: ZoneDecisionImpact) -> Iterator[str]:
    if found.replayed:
        share = "all" if found.reproduced >= found.replayed else _percent(found.reproduced / found.replayed)
        yield f"the present policies decide {share} of them as recorded"


def _percent(share: float) -> str:
    """A share of less than all."""
    return f"{min(round(100 * share, 1), 99.9):.1f} %"


def _assumed(found: ZoneDecisionImpact) -> Iterator[str]:
    if found.unrecorded:
        names = _listed([_ASSUMED.get(each, _shown(each)) for each in found.unrecorded])
        yield f"assumed, since records do not have it: {names}"


# --- words


def _shown(value: str) -> str:
    """A name as it is, where it is one plain word; else in quotes, so that it looks like nothing else."""
    return value if _PLAIN.fullmatch(value) else as_text(value)


def _listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
