"""The policy impact of a plan: deciding policy sets, widened access, prefix exemptions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reconciler.output_documents import (
    DecidingDocument,
    MissingNameDocument,
    PrefixExemptionDocument,
    WidenedDocument,
)


@dataclass(frozen=True, slots=True)
class WidenedAccess:
    """An active policy that restricts less than before, because a name in its text matches other objects now.

    Attributes:
        zone: the zone's name for people.
        name: as the policy writes it: `Group::"contractors"`.
        policy: the policy's name for people.
        place: `file:line:column` of the text where it has a file, else `line N of its text`.
        effect, sense: how the policy uses the name; see `reconciler.cedar.EntityMention`.
        loses, gains: the objects that the name no longer matches, or newly matches; one of them is empty.
        empty: the name matches nothing afterwards.
        gone: no object has the name afterwards.
        now: the new name of an object that is renamed.
    """

    zone: str
    name: str
    policy: str
    place: str
    effect: str
    sense: int
    loses: tuple[str, ...] = ()
    gains: tuple[str, ...] = ()
    empty: bool = False
    gone: bool = False
    now: str | None = None

    def as_json(self) -> WidenedDocument:
        """As a JSON object; what does not apply is left out."""
        document: WidenedDocument = {
            "zone": self.zone,
            "name": self.name,
            "policy": self.policy,
            "place": self.place,
            "rule": self.rule,
        }
        if self.loses:
            document["loses"] = list(self.loses)
        if self.gains:
            document["gains"] = list(self.gains)
        if self.empty:
            document["empty"] = True
        if self.gone:
            document["gone"] = True
        if self.now is not None:
            document["now"] = self.now
        return document

    @property
    def rule(self) -> Any:
        """How the policy uses the name, as one or two words."""
        if self.sense == 0:
            return f"{self.effect} if"
        return self.effect if self.sense > 0 else f"{self.effect} unless"

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "WidenedAccess":
        """Read what `as_json` made."""
        effect, _, how = content["rule"].partition(" ")
        return cls(
            zone=content["zone"],
            name=content["name"],
            policy=content["policy"],
            place=content["place"],
            effect=effect,
            sense={"if": 0, "unless": -1}.get(how, 1),
            loses=tuple(content.get("loses", ())),
            gains=tuple(content.get("gains", ())),
            empty=content.get("empty", False),
            gone=content.get("gone", False),
            now=content.get("now"),
        )


@dataclass(frozen=True, slots=True)
class PolicySetChange:
    """A change of the active policy set of a zone, or of what the active policies may forbid or permit.

    Attributes:
        zone: the zone's name for people.
        before: the policy set that is active before the apply.
        after: the one that is active afterwards, which may be the same; None when there is none.
        forbids: policies with a `forbid` that are no longer active.
        forbids_less: policies that stay active, and of whose text a `forbid` may apply to less.
        permits: policies with a `permit` that become active.
        permits_more: policies that stay active, and of whose text a `permit` may apply to more.
        first: the description of the default policies, where they become active again.
        first_ended: the same, where they are no longer active.
        drift: git's policy set was active until somebody activated another one on the server, or deleted it.
        forbids_again: with `drift`, policies with a `forbid` that are inactive because of it.
    """

    zone: str
    before: str
    after: str | None
    forbids: tuple[str, ...] = ()
    forbids_less: tuple[str, ...] = ()
    permits: tuple[str, ...] = ()
    permits_more: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    first_ended: tuple[str, ...] = ()
    drift: bool = False
    forbids_again: tuple[str, ...] = ()

    def as_json(self) -> DecidingDocument:
        """As a JSON object."""
        document: DecidingDocument = {"zone": self.zone, "before": self.before, "after": self.after}
        if self.forbids:
            document["forbids"] = list(self.forbids)
        if self.forbids_less:
            document["forbids_less"] = list(self.forbids_less)
        if self.permits:
            document["permits"] = list(self.permits)
        if self.permits_more:
            document["permits_more"] = list(self.permits_more)
        if self.first:
            document["first"] = list(self.first)
        if self.first_ended:
            document["first_ended"] = list(self.first_ended)
        if self.drift:
            document["drift"] = True
        if self.forbids_again:
            document["forbids_again"] = list(self.forbids_again)
        return document

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "PolicySetChange":
        """Read what `as_json` made."""
        return cls(
            content["zone"],
            content["before"],
            content["after"],
            forbids=tuple(content.get("forbids", ())),
            forbids_less=tuple(content.get("forbids_less", ())),
            permits=tuple(content.get("permits", ())),
            permits_more=tuple(content.get("permits_more", ())),
            first=tuple(content.get("first", ())),
            first_ended=tuple(content.get("first_ended", ())),
            drift=content.get("drift", False),
            forbids_again=tuple(content.get("forbids_again", ())),
        )


@dataclass(frozen=True, slots=True)
class PrefixExemption:
    """A resource that becomes a prefix, and existing resources below it that its policies do not cover.

    Each of them stays a resource of its own: policies that name the prefix do not apply to it.

    Attributes:
        zone: the zone's name for people.
        prefix: the identifier of the prefix.
        resources: the resources below it, as `Kind/name`.
    """

    zone: str
    prefix: str
    resources: tuple[str, ...]

    def as_json(self) -> PrefixExemptionDocument:
        """As a JSON object."""
        return {"zone": self.zone, "prefix": self.prefix, "resources": list(self.resources)}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "PrefixExemption":
        """Read what `as_json` made."""
        return cls(content["zone"], content["prefix"], tuple(content["resources"]))


class PolicyImpact(NamedTuple):
    """Everything that a plan changes for policy decisions and that none of its actions shows."""

    deciding: tuple[PolicySetChange, ...]
    widened: tuple[WidenedAccess, ...]
    exempt: tuple[PrefixExemption, ...]


@dataclass(frozen=True, slots=True)
class MissingPolicyName:
    """A name in an active policy that no object of the zone has, also after an apply.

    Attributes:
        zone: the zone's name for people.
        name: as the policy writes it: `User::"bobby"`.
        policy: the policy's name for people.
        place: `file:line:column` of the text where it has a file, else `line N of its text`.
        managed: this owner manages the policy.
        hint: the suggestion at the end of a message; empty when no similar name is known.
    """

    zone: str
    name: str
    policy: str
    place: str
    managed: bool = False
    hint: str = ""

    def as_json(self) -> MissingNameDocument:
        """As a JSON object; what does not apply is left out."""
        document: MissingNameDocument = {
            "zone": self.zone,
            "name": self.name,
            "policy": self.policy,
            "place": self.place,
        }
        if self.managed:
            document["managed"] = True
        return document
