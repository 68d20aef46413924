"""Renders explanations of token exchanges as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.terminal import Line, Styled

from .decisions import policy_text

_MARKS = {
    "passed": Styled("ok", "green"),
    "assumed": Styled("assumed", "yellow"),
    "refused": Styled("refused", "red", bold=True),
    "also_refused": Styled("would also be refused", "red"),
    "not_reached": Styled("not reached", dim=True),
}
_NO_ANSWER = "unknown"  # the error where no exchange would come to an answer
_NAME_WIDTH = 12  # of the longest name of a step, and two spaces


def explanation_lines(explanation: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Line]:
    """An explanation as text: the answer first, then each exchange with its steps.

    Args:
        asked: the question, with `application`, `resource` and `via` as it names them.
    """
    hops = explanation["hops"]
    answer = (
        Styled("allowed", "green", bold=True)
        if explanation["allowed"]
        else Styled("refused", "red", bold=True)
    )
    yield answer, f": {_sentence(explanation, asked)}"
    for hop in hops:
        yield ""
        if asked["via"]:
            yield Styled(f"{hop['application']} -> {hop['resource'] or '?'}", bold=True)
        yield from _hop_lines(hop)


def unresolved_lines(unresolved: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The names that nothing in the zone has, or several objects, by the options that say them."""
    for each in unresolved:
        yield f"`--{each['member']} {each['name']}`: {each['reason']}; {each['remedy']}"


def _sentence(explanation: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What is said first, of the application that asks last, whichever exchange of the chain is refused."""
    hops, via = explanation["hops"], asked["via"]
    last = hops[-1]
    is_whole = len(hops) > len(via)
    resource = (last["resource"] if is_whole else None) or asked["resource"]
    whom = f"`{explanation['user']}`" if explanation["user"] else "itself"
    through = f" through {' and '.join(f'`{each}`' for each in via)}" if via else ""
    if explanation["allowed"]:
        scopes = f" with `{' '.join(last['scopes'])}`" if last["scopes"] else ", without scopes"
        return f"`{asked['application']}` gets `{resource}` for {whom}{through}{scopes}"
    why = last["reason"] if last["error"] == _NO_ANSWER else last["error"]
    place = "" if is_whole else f", in the exchange of `{last['application']}`"
    return f"`{asked['application']}` does not get `{resource}` for {whom}{through}: {why}{place}"


def _hop_lines(hop: Mapping[str, Any]) -> Iterator[Line]:
    for step in hop["steps"]:
        detail = f"  {step['detail']}" if step.get("detail") else ""
        yield f"  {step['step']:>2}  {step['name']:<{_NAME_WIDTH}}", _MARKS[step["outcome"]], detail
    for policy in hop["policies"]:
        yield f"  {'permitted' if hop['allowed'] else 'forbidden'} by: {policy_text(policy)}"
    yield from _left_out_lines(hop)
    for remedy in hop["remedies"]:
        yield Styled("  to fix", "yellow"), f": {remedy}"


def _left_out_lines(hop: Mapping[str, Any]) -> Iterator[Line]:
    """The scopes that policies leave out: forbidden by a rule, or permitted by none."""
    rules = hop.get("left_out_by", ())
    left_out = hop.get("left_out", ())
    unpermitted = hop.get("unpermitted", () if rules else left_out)  # earlier servers do not tell them apart
    if forbidden := [each for each in left_out if each not in unpermitted]:
        why = "; ".join(f"forbidden by {policy_text(each)}" for each in rules)
        yield f"  left out: `{' '.join(forbidden)}`, {why}"
    if unpermitted:
        yield f"  left out: `{' '.join(unpermitted)}`, which no policy permits"
