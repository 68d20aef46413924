"""Reads saved plans (`zonectl plan --out`) and refuses those that were changed after they were made."""

from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.kinds import IncludedVersion, InForce
from reconciler.output_documents import PLAN

from .model import NOT_IN_DIGEST, Action, ChangeState, FieldChange, Op, Plan, digest_of
from .policy_impact import PolicySetChange, PrefixExemption, WidenedAccess


class PlanUnreadable(ValueError):
    """The file is not a plan, or not the plan that its digest names."""


def read_plan(text: bytes) -> Plan:
    """A saved plan.

    Raises:
        PlanUnreadable: it was changed after it was made, or is something else.
    """
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PlanUnreadable("the file is not a plan") from error
    if not isinstance(content, dict) or content.get("format") != PLAN:
        raise PlanUnreadable(f"the file is not a plan of the form `{PLAN}`")
    digest = content.pop("digest", None)
    if digest_of(content) != digest:
        raise PlanUnreadable("the plan was changed after it was made: its digest does not fit; plan again")
    try:
        plan = _read_content(content)
        again: Mapping[str, Any] = plan.as_json()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanUnreadable("the file is not a plan that zonectl made; plan again") from error
    # The file has derived members as well, for its readers; any member that zonectl does not write is
    # refused.
    for name in sorted((content.keys() | again.keys()) - {*NOT_IN_DIGEST} | {"shown_once"}):
        if content.get(name) != again.get(name):
            raise PlanUnreadable(f"`{name}` of the plan is not as zonectl writes it; plan again")
    return plan


def _read_content(content: Mapping[str, Any]) -> Plan:
    return Plan(
        tool_version=content["tool"]["version"],
        owner=content["owner"],
        organization_id=content["organization_id"],
        server=content["server"],
        base_revision=content["base_revision"],
        source=content["source"],
        actions=tuple(_read_action(each) for each in content["actions"]),
        operations=tuple(content["operations"]),
        owned=content["owned"],
        manifest_count=content["wanted"],
        refused=tuple(content["refused"]),
        budgets=content.get("delete_budgets", {}),
        deciding=tuple(PolicySetChange.read(each) for each in content.get("deciding", ())),
        widened=tuple(WidenedAccess.read(each) for each in content.get("widened", ())),
        exempt=tuple(PrefixExemption.read(each) for each in content.get("exempt", ())),
        saved=True,
    )


def _read_in_force(content: Mapping[str, Any]) -> InForce:
    contents = tuple(IncludedVersion(**each) for each in content["contents"])
    before_is_latest = content.get("before_is_latest", False)
    return InForce(
        content["version"], content["latest_version"], contents=contents, before_is_latest=before_is_latest
    )


def _read_action(content: Mapping[str, Any]) -> Action:
    return Action(
        op=Op(content["op"]),
        kind=content["kind"],
        zone=content.get("zone"),
        name=content["name"],
        id=content.get("id"),
        reason=content["reason"],
        changes=tuple(
            FieldChange(
                each["field"],
                each["before"],
                each["after"],
                ChangeState(each["state"]) if "state" in each else None,
                each.get("applied"),
                _read_in_force(each["in_force"]) if "in_force" in each else None,
            )
            for each in content["changes"]
        ),
        handle=content.get("handle"),
        protected=content.get("protected", False),
        takes_along=content.get("takes_along", 0),
        previous_name=content.get("previous_name"),
        moved_from=content.get("moved_from"),
        moved_to=content.get("moved_to"),
        shown_once=content.get("shown_once", False),
        secret_ends=content.get("secret_ends", False),
        deleted=content.get("deleted", False),
        keep=next(iter(content.get("keep", {}).items()), None),
    )
