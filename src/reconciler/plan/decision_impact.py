"""The decision impact of a plan: recorded decisions that it would change, as the server found in a dry run.

It is shown beside a plan and is no part of its digest: requests arrive all day, and the plan stays the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from reconciler.kinds.values import parse_instant
from reconciler.output_documents import (
    ChangedDecisionsDocument,
    ChangedRequestDocument,
    DecisionImpactDocument,
    NamedRuleDocument,
)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule by the name of its policy, and by its `@id` or its place among the rules of the text, from 0."""

    policy: str
    rule: str

    def as_json(self) -> NamedRuleDocument:
        """As a JSON object."""
        return {"policy": self.policy, "rule": self.rule}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "NamedRule":
        """Read a rule of the server's answer."""
        return cls(_text(content["policy"]), _text(content["rule"]))


@dataclass(frozen=True, slots=True)
class ChangedRequest:
    """A request whose decision changes, and how often it was recorded.

    Attributes:
        user: the identifier; None for a token of the application's own.
        user_email: None where the caller may not read users.
        actors: the applications that the token names (`act`), the one that asks first.
        scopes: those that are lost or gained; empty where everything at the resource is.
        last_at: when it was recorded last, an RFC 3339 time.
        refused_by: what refuses it, now or afterwards: `policy`, `dependency`, `scope`, `user`,
            `application` or `resource`; None where the server does not say.
        before, after: the rules that decide now, and afterwards; none where no rule permits it.
    """

    application: str
    resource: str
    decisions: int
    last_at: str
    user: str | None = None
    user_email: str | None = None
    actors: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    refused_by: str | None = None
    before: tuple[NamedRule, ...] = ()
    after: tuple[NamedRule, ...] = ()

    def as_json(self) -> ChangedRequestDocument:
        """As a JSON object; what does not apply is left out."""
        document: ChangedRequestDocument = {
            "user": self.user,
            "application": self.application,
            "resource": self.resource,
            "actors": list(self.actors),
            "decisions": self.decisions,
            "last_at": self.last_at,
            "before": [each.as_json() for each in self.before],
            "after": [each.as_json() for each in self.after],
        }
        if self.user_email is not None:
            document["user_email"] = self.user_email
        if self.scopes:
            document["scopes"] = list(self.scopes)
        if self.refused_by is not None:
            document["refused_by"] = self.refused_by
        return document

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "ChangedRequest":
        """Read an example of the server's answer."""
        return cls(
            application=_text(content["application"]),
            resource=_text(content["resource"]),
            decisions=_count(content["decisions"]),
            last_at=_time(content["last_at"]),
            user=_text_or_none(content.get("user")),
            user_email=_text_or_none(content.get("user_email")),
            actors=_texts(content.get("actors")),
            scopes=_texts(content.get("scopes")),
            refused_by=_text_or_none(content.get("refused_by")),
            before=tuple(map(NamedRule.read, content.get("before") or ())),
            after=tuple(map(NamedRule.read, content.get("after") or ())),
        )


@dataclass(frozen=True, slots=True)
class ChangedDecisions:
    """Recorded decisions that are lost, or those that are gained.

    Attributes:
        decisions: how many.
        of_scopes: how many of these only lose or gain scopes, and are allowed either way.
        users, applications, resources: how many different ones they are of.
        examples: some of the requests, those with most decisions first.
    """

    decisions: int = 0
    users: int = 0
    applications: int = 0
    resources: int = 0
    examples: tuple[ChangedRequest, ...] = ()
    of_scopes: int = 0

    @property
    def whole(self) -> int:
        """How many are refused on one side."""
        return self.decisions - self.of_scopes

    def as_json(self) -> ChangedDecisionsDocument:
        """As a JSON object."""
        return {
            "decisions": self.decisions,
            "of_scopes": self.of_scopes,
            "users": self.users,
            "applications": self.applications,
            "resources": self.resources,
            "examples": [each.as_json() for each in self.examples],
        }

    @classmethod
    def read(cls, content: Mapping[str, Any] | None) -> "ChangedDecisions":
        """Read one half of the server's answer; None stands for no decisions."""
        if content is None:
            return cls()
        return cls(
            _count(content["decisions"]),
            _count(content["users"]),
            _count(content["applications"]),
            _count(content["resources"]),
            tuple(map(ChangedRequest.read, content.get("examples") or ())),
            _count(content.get("of_scopes") or 0),
        )


@dataclass(frozen=True, slots=True)
class ZoneDecisionImpact:
    """What a plan changes for the requests that policies of one zone decided on.

    Attributes:
        zone: the zone's name for people.
        since: decisions that were recorded from then on were looked at, an RFC 3339 time.
        complete: older ones need not be looked at; otherwise one dry run looks at no more.
        period: how long that is before the dry run.
        recorded: how many decisions were looked at.
        replayed: how many of these were decided again, with the present and the proposed policies.
        reproduced: how many of the replayed the present policies decide as was recorded.
        not_replayed: reason -> how many were not replayed because of it.
        unrecorded: names of what rules look at and decisions do not record; the replay assumes it.
        loses: decisions that allowed a request which would be refused, or get fewer scopes.
        gains: decisions that refused a request which would be allowed, or gave it fewer scopes.
    """

    zone_id: str
    zone: str
    since: str
    period: timedelta
    recorded: int
    replayed: int
    reproduced: int
    not_replayed: Mapping[str, int] = field(default_factory=dict)
    unrecorded: tuple[str, ...] = ()
    loses: ChangedDecisions = ChangedDecisions()
    gains: ChangedDecisions = ChangedDecisions()
    complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.loses.decisions or self.gains.decisions)

    def without_examples(self) -> "ZoneDecisionImpact":
        """Its counts, without users and requests by name."""
        loses, gains = (replace(each, examples=()) for each in (self.loses, self.gains))
        return replace(self, loses=loses, gains=gains)

    def as_json(self) -> DecisionImpactDocument:
        """As a JSON object."""
        return {
            "zone": self.zone,
            "zone_id": self.zone_id,
            "since": self.since,
            "complete": self.complete,
            "recorded": self.recorded,
            "replayed": self.replayed,
            "reproduced": self.reproduced,
            "not_replayed": dict(self.not_replayed),
            "unrecorded": list(self.unrecorded),
            "loses": self.loses.as_json(),
            "gains": self.gains.as_json(),
        }

    @classmethod
    def read(
        cls, content: Mapping[str, Any], zone_names: Mapping[str, str], now: datetime
    ) -> "ZoneDecisionImpact":
        """Read what the server answers for one zone.

        Args:
            zone_names: zone id -> its name for people.
            now: when the server was asked.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is of another form.
        """
        zone_id, since = _text(content["zone_id"]), _time(content["since"])
        left_out = content.get("not_replayed") or {}
        return cls(
            zone_id=zone_id,
            zone=zone_names.get(zone_id, zone_id),
            since=since,
            period=now - _instant(since),
            recorded=_count(content["recorded"]),
            replayed=_count(content["replayed"]),
            reproduced=_count(content["reproduced"]),
            not_replayed={_text(reason): _count(number) for reason, number in left_out.items()},
            unrecorded=_texts(content.get("unrecorded")),
            loses=ChangedDecisions.read(content.get("loses")),
            gains=ChangedDecisions.read(content.get("gains")),
            complete=content.get("complete") is not False,
        )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{value}` is no text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _texts(values: Sequence[object] | None) -> tuple[str, ...]:
    return tuple(map(_text, values or ()))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"`{value}` is no count")
    return value


def _time(value: object) -> str:
    """A time as it is written. Raises TypeError, ValueError."""
    text = _text(value)
    _instant(text)
    return text


def _instant(text: str) -> datetime:
    found = parse_instant(text)
    if found is None:
        raise ValueError(f"`{text}` is no time")
    return found
