"""The JSON types of decision records and explanations: what was or would be decided, by whom, and why."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from runtime.domain.identifiers import example_id
from runtime.domain.kinds.marks import Example
from runtime.domain.kinds.values import Part, Timestamp


class ManifestSource(Part):
    """The manifest that an object was last written from, as its ownership record has it.

    `file` is relative to the repository, and `line` counts from 1, both as at `commit`: a manifest that has
    only moved since is not written again. They are null where the client that applied it did not send them.
    """

    owner: Annotated[str, Example("acme/identity")]
    name: Annotated[str, Example("payments")]
    file: Annotated[str | None, Example("config/policies.yaml")] = None
    line: Annotated[int | None, Example(14)] = None
    commit: Annotated[str | None, Example("9fceb02d0ae598e95dc970b74767f19372d61af8")] = None
    repository: Annotated[str | None, Example("https://git.acme.example/identity")] = None


class DecidingPolicy(Part):
    """A rule that decided: a `permit` where the request was allowed, a `forbid` where it was refused.

    `rule` is its `@id`, or its position in the text from 0. `policy` is null once the policy is gone.
    """

    rule: Annotated[str, Example("only-finance")]
    policy_version_id: str
    policy_id: str | None = None
    policy: Annotated[str | None, Example("payments")] = None
    version: Annotated[int | None, Example(3)] = None
    source: ManifestSource | None = None


class DecisionRecord(Part):
    """What became of one request: a sign-in, a token request, a revocation or the end of a session.

    `event` is the endpoint, the page or the grant type of the request, or what has ended; `outcome` is what
    it came to, such as `issued`, `signed_in` or `refused`. The values of both are those that the parameters
    `filter[event]` and `filter[outcome]` of the list take. `error` is the error code that the client got, or
    a more precise one: `too_many_requests`, `provider_failed`, `provider_unavailable`. `reason` explains it
    to administrators: a text that the client did not get, and no code to compare with. `step` numbers the
    steps of a token exchange. `user`, `application` and `resource` are identifiers, null where there is none
    or it is gone; `user_email` is the user's address now, for callers who may read users. Where the client
    was refused, the application is the one that the request names. `actors` are those of the subject token,
    and from the step `scopes` on those of the new token: the application first.
    `requests` is above 1 where refusals of one sort were only counted.
    """

    id: str
    at: Timestamp
    request_id: Annotated[str | None, Example(example_id("request"))]
    event: Annotated[str, Example("token_exchange")]
    outcome: Annotated[str, Example("refused")]
    error: Annotated[str | None, Example("invalid_target")]
    reason: Annotated[str | None, Example("not a declared dependency")]
    step: Annotated[int | None, Example(8)]
    step_name: Annotated[str | None, Example("dependency")]
    user_id: str | None
    application_id: str | None
    user_agent_id: str | None
    user: Annotated[str | None, Example("ada@acme.example")]
    user_email: Annotated[str | None, Example("ada@acme.example")]
    application: Annotated[str | None, Example("calendar-agent")]
    resource: Annotated[str | None, Example("https://calendar.acme.example")]
    credential_id: str | None
    resource_id: str | None
    actors: Annotated[list[str], Example(["calendar-agent"])]
    policies: list[DecidingPolicy]
    requests: Annotated[int, Example(1)]


Names = Annotated[str, StringConstraints(min_length=1, max_length=2048)]


class ExplainBody(Part):
    """The token request to explain. `application`, `user`, `resource` and `via` are ids or identifiers.

    Applications and resources may also be named as their manifests are (`metadata.name`), applications by
    client id, and users by e-mail address. `user` is null for a token of the application's own (client
    credentials). `resource` may be any URL that the resource covers. `scopes` is null for all that can be
    had. `via` names the applications that the user's token comes through, the first one first.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "application": "calendar-agent",
        "resource": "https://calendar.acme.example",
        "user": "ada@acme.example",
        "scopes": ["read"],
    }

    application: Names
    resource: Names
    user: Names | None = None
    scopes: Annotated[list[Names], Field(max_length=100)] | None = None
    via: Annotated[list[Names], Field(max_length=10)] = Field(default_factory=list)


class ExplainedStep(Part):
    """A step of an exchange, and what it comes to.

    `assumed`: what the step needs is not there, and the answer goes on as if it were. `also_refused`: an
    earlier step refuses, and this one would, too, if the earlier ones passed and the user agreed to
    everything. `not_reached`: an earlier step refuses, and nothing is known against this one.
    """

    step: Annotated[int, Example(8)]
    name: Annotated[str, Example("dependency")]
    outcome: Annotated[
        Literal["passed", "assumed", "refused", "also_refused", "not_reached"],
        Example("refused"),
    ]
    detail: Annotated[str | None, Example("not a declared dependency")] = None


class ExplainedHop(Part):
    """One exchange of the chain: what an application gets for the token that it has.

    `error` is the code that the application would get, `reason` what it would not get to know. `remedies`
    says what would mend the refusal, and those of the steps that are `also_refused`. `actors` are those that
    the token would name (`act`), the application itself first, whichever step refuses; none for a token of
    the application's own. `policies` are the rules that decide at the step `policy`, also where that is
    `also_refused`. `scopes` are those that the token would have, `left_out` those that only policies leave
    out: `unpermitted` has those of them that no rule permits, and `left_out_by` the rules that forbid the
    others.
    """

    application: Annotated[str, Example("calendar-agent")]
    resource: Annotated[str | None, Example("https://calendar.acme.example")]
    allowed: Annotated[bool, Example(False)]
    error: Annotated[str | None, Example("invalid_target")]
    reason: Annotated[str | None, Example("not a declared dependency")]
    steps: list[ExplainedStep]
    scopes: Annotated[list[str], Example([])]
    actors: Annotated[list[str], Example(["calendar-agent"])]
    policies: list[DecidingPolicy]
    left_out: Annotated[list[str], Example([])]
    left_out_by: list[DecidingPolicy]
    unpermitted: Annotated[list[str], Example([])]
    remedies: Annotated[
        list[str], Example(["add `https://calendar.acme.example` to the dependencies of `calendar-agent`"])
    ]


QuestionMember = Literal["application", "via", "user", "resource"]


class UnresolvedMember(Part):
    """A name of the question that nothing in the zone has, or several objects. `member` says where it is."""

    member: Annotated[QuestionMember, Example("user")]
    name: Annotated[str, Example("eve@acme.example")]
    reason: Annotated[str, Example("there is no user `eve@acme.example` in the zone")]
    remedy: Annotated[str, Example("`eve@acme.example` has to sign in to the zone once")]


class Explanation(Part):
    """Whether an application would get a token for a user now, and why.

    `hops` has one exchange for each of `via`, as far as they are allowed, and the application's own last.
    `user` is null for a token of the application's own (client credentials). `session` is the sign-in that
    the answer rests on: null for such a token, and where none is active: then one that begins now is assumed.
    `unresolved` has the names of the question that nothing in the zone has, or several objects: then a
    refusal says nothing but that.
    """

    at: Timestamp
    allowed: Annotated[bool, Example(False)]
    user: Annotated[str | None, Example("ada@acme.example")]
    session: str | None
    unresolved: Annotated[list[UnresolvedMember], Example([])] = Field(default_factory=list)
    hops: list[ExplainedHop]
