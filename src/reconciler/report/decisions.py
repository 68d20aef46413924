"""Renders decision records as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.terminal import Line, Styled

from .rule_names import rule_text
from .value_diff import counted

_POLICY_DENIED = "policy_denied"  # the reason of a refusal that the policies decided


def decision_lines(found: Sequence[Mapping[str, Any]], *, limit: int) -> Iterator[Line]:
    """Records as text, the newest first."""
    for each in found:
        yield from _record_lines(each)
    if not found:
        yield "no decision matches; records are kept for a limited time, and are written within a second"
    elif len(found) == limit:
        yield f"the newest {counted(limit, 'record')}; `--limit` shows more"


def _record_lines(record: Mapping[str, Any]) -> Iterator[Line]:
    refused = record["outcome"] == "refused"
    outcome = Styled(str(record["outcome"]), "red" if refused else "green", bold=True)
    yield f"{record['at']}  {record['event']}  ", outcome, *_error(record)
    if record["reason"]:
        yield f"    reason: {record['reason']}"
    if record["step"] is not None:
        named = f" ({record['step_name']})" if record["step_name"] else ""
        yield f"    step: {record['step']}{named}"
    if record["user_id"] is not None:
        yield f"    user: {_user(record)}"
    for label in ("application", "resource"):
        if record[f"{label}_id"] is not None:
            yield f"    {label}: {record[label] or record[f'{label}_id'] + ' (deleted)'}"
    if record["user_agent_id"] is not None:
        yield f"    client: {record['user_agent_id']} (registered itself)"
    if record["actors"]:
        yield f"    actors: {', '.join(record['actors'])}"
    # What was permitted may still be refused: by a provider that does not answer, for instance.
    decided = "forbidden" if record["reason"] == _POLICY_DENIED else "permitted"
    for policy in record["policies"]:
        yield f"    {decided} by: {policy_text(policy)}"
    if record["requests"] > 1:
        yield f"    requests: {record['requests']:,}, similar ones counted together from this time on"
    if record["request_id"]:
        yield f"    request: {record['request_id']}"


def _user(record: Mapping[str, Any]) -> str:
    """The address of a user, as far as the caller may read it, the identifier and the id, each once."""
    if record["user"] is None:
        return f"{record['user_id']} (deleted)"
    first, *others = dict.fromkeys(
        each for each in (record.get("user_email"), record["user"], record["user_id"]) if each
    )
    return f"{first} ({', '.join(others)})" if others else first


def _error(record: Mapping[str, Any]) -> Sequence[str]:
    return [f"  {record['error']}"] if record["error"] else []


def policy_text(policy: Mapping[str, Any]) -> str:
    """A rule that decided, with the place it was written from, on one line."""
    name = policy.get("policy") or f"version {policy['policy_version_id']} of a policy that is gone"
    told = f"policy `{name}`, {rule_text(str(policy['rule']))}"
    source = policy.get("source")
    if source is None:
        return told
    return f"{told} ({_place(source)})"


def _place(source: Mapping[str, Any]) -> str:
    """Where a manifest is, as the ownership record has it: `file:line@commit`, as far as it is known.

    `+changes` stays of a commit in short: the files were not those of the commit.
    """
    name, plus, changes = (source.get("commit") or "").partition("+")
    commit = f"{name[:12]}{plus}{changes}"
    if not source.get("file"):
        return f"manifests of `{source['owner']}`" + (f", commit {commit}" if commit else "")
    line = f":{source['line']}" if source.get("line") else ""
    return f"{source['file']}{line}" + (f"@{commit}" if commit else "")
