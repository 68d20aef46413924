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
    """A policy in force that restricts less than before, because a name in its text means something else.

    Attributes:
        zone: the zone's name for people.
        name: as the policy writes it: `Group::"contractors"`.
        policy: the policy's name for people.
        place: `file:line:column` of the text where it has a file, else `line N of its text`.
        effect, sense: how the policy goes by the name; see `reconciler.cedar.EntityMention`.
        loses, gains: who or what belongs to the name no longer, or from now on; one of them is empty.
        empty: nobody and nothing belongs to it afterwards.
        gone: no object has the name afterwards.
        now: what it is called afterwards, where it was renamed.
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
        told: WidenedDocument = {
            "zone": self.zone,
            "name": self.name,
            "policy": self.policy,
            "place": self.place,
            "rule": self.rule,
        }
        if self.loses:
            told["loses"] = list(self.loses)
        if self.gains:
            told["gains"] = list(self.gains)
        if self.empty:
            told["empty"] = True
        if self.gone:
            told["gone"] = True
        if self.now is not None:
            told["now"] = self.now
        return told

    @property
    def rule(self) -> Any:
        """How the policy goes by the name, in a word or two."""
        if self.sense == 0:
            return f"{self.effect} if"
        return self.effect if self.sense > 0 else f"{self.effect} unless"

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "WidenedAccess":
        """What `as_json` made."""
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
    """A change of the deciding policy set of a zone, or of what the deciding policies may forbid or permit.

    Attributes:
        zone: the zone's name for people.
        before: the set that decides so far.
        after: the one that does afterwards, which may be the same; None when there is none.
        forbids: policies that forbid something and decide no longer.
        forbids_less: policies that decide as before, and of whose text a `forbid` may apply to less.
        permits: policies that permit something and decide only now.
        permits_more: policies that decide as before, and of whose text a `permit` may apply to more.
        first: what the policies say that the zone began with, where they decide again.
        first_ended: the same, where they decide no longer.
        drift: git's set decided, and somebody has let another one decide on the server, or deleted it.
        forbids_again: where that is so, policies that forbid something and are not in force for it now.
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
        told: DecidingDocument = {"zone": self.zone, "before": self.before, "after": self.after}
        if self.forbids:
            told["forbids"] = list(self.forbids)
        if self.forbids_less:
            told["forbids_less"] = list(self.forbids_less)
        if self.permits:
            told["permits"] = list(self.permits)
        if self.permits_more:
            told["permits_more"] = list(self.permits_more)
        if self.first:
            told["first"] = list(self.first)
        if self.first_ended:
            told["first_ended"] = list(self.first_ended)
        if self.drift:
            told["drift"] = True
        if self.forbids_again:
            told["forbids_again"] = list(self.forbids_again)
        return told

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "PolicySetChange":
        """What `as_json` made."""
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

    Each of them stays a resource of its own: what policies say of the prefix does not hold for it.

    Attributes:
        zone: the zone's name for people.
        prefix: the identifier of the prefix.
        resources: what stands beneath, as `Kind/name`.
    """

    zone: str
    prefix: str
    resources: tuple[str, ...]

    def as_json(self) -> PrefixExemptionDocument:
        """As a JSON object."""
        return {"zone": self.zone, "prefix": self.prefix, "resources": list(self.resources)}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "PrefixExemption":
        """What `as_json` made."""
        return cls(content["zone"], content["prefix"], tuple(content["resources"]))


class PolicyImpact(NamedTuple):
    """Everything that a plan changes for policy decisions and that none of its actions shows."""

    deciding: tuple[PolicySetChange, ...]
    widened: tuple[WidenedAccess, ...]
    exempt: tuple[PrefixExemption, ...]


@dataclass(frozen=True, slots=True)
class MissingPolicyName:
    """A name in a policy in force that no object of the zone has, also after an apply.

    Attributes:
        zone: the zone's name for people.
        name: as the policy writes it: `User::"bobby"`.
        policy: the policy's name for people.
        place: `file:line:column` of the text where it has a file, else `line N of its text`.
        managed: the policy is this owner's, so git means it to hold.
        hint: what was probably meant, to be put at the end of a message; empty when nothing is like it.
    """

    zone: str
    name: str
    policy: str
    place: str
    managed: bool = False
    hint: str = ""

    def as_json(self) -> MissingNameDocument:
        """As a JSON object; what does not apply is left out."""
        told: MissingNameDocument = {
            "zone": self.zone,
            "name": self.name,
            "policy": self.policy,
            "place": self.place,
        }
        if self.managed:
            told["managed"] = True
        return told
