"""The policy engine."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.support.waiting import working_at_most

from runtime.adapters import cedar
from runtime.adapters.cedar import InvalidPolicy, check, compile_policies, decide, parse_rules
from runtime.domain.policy import defaults, requests, schema
from runtime.domain.policy.requests import PolicyApplication, PolicyGroup, PolicyResource, PolicyUser

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SCHEMA = cedar.parse_schema(schema.current().text)
API = PolicyResource(
    "https://api.example",
    scopes=("read", "write"),
    provider=PolicyApplication("api", traits=("mcp-server",), roles=("internal",)),
)
ADA = PolicyUser(
    "ada", email="ada@example.test", groups=(PolicyGroup("contractors", "Contractors", ("viewer",)),)
)
DEFAULTS = compile_policies(
    {policy.name: parse_rules(policy.text) for policy in defaults.all_defaults()}, SCHEMA
)


def agent(**changes):
    return PolicyApplication(**{"identifier": "agent", "credential": "password", **changes})


def ask(principal=ADA, application=None, **changes):
    given = {"actors": ("agent",), "resource": API, "scopes": ["read"], "now": NOW}
    return requests.exchange(principal, application=application or agent(), **{**given, **changes})


def policies(*texts):
    return compile_policies({f"v{index}": parse_rules(text) for index, text in enumerate(texts)}, SCHEMA)


PERMIT = '@id("open") permit(principal, action, resource);'


@pytest.mark.parametrize("policy", defaults.all_defaults(), ids=lambda policy: policy.name)
def test_default_policies_are_valid_and_formatted(policy):
    """They validate strictly against the schema and are written in Cedar's own layout."""
    assert check(policy.text, SCHEMA) == []
    assert cedar.format_text(policy.text) == policy.text


def test_defaults_let_an_application_use_what_it_was_granted():
    """The application the user signed in to, asking itself."""
    decision = decide(DEFAULTS, ask())

    assert decision.allowed
    assert decision.determining == ("default-user-grants#default-user-grants",)


def test_defaults_let_managed_applications_act_further_along_a_chain():
    """Managed ones act in a chain; those that registered themselves do not."""
    chain = {"actors": ("agent", "portal")}

    assert decide(DEFAULTS, ask(**chain)).allowed
    assert not decide(DEFAULTS, ask(application=agent(registration="dynamic"), **chain)).allowed


def test_defaults_let_an_application_reach_its_dependencies_itself():
    """On its own behalf a declared dependency is needed."""
    with_it = requests.direct(agent(dependencies=(API.identifier,)), resource=API, scopes=[], now=NOW)
    without = requests.direct(agent(), resource=API, scopes=[], now=NOW)

    assert decide(DEFAULTS, with_it).allowed
    assert not decide(DEFAULTS, without).allowed


def test_nothing_permits_without_policies():
    """An empty set denies everything."""
    assert not decide(policies(), ask()).allowed


@pytest.mark.parametrize(
    "condition",
    [
        'principal in Group::"contractors"',
        'principal in Role::"viewer"',
        'principal == User::"ada"',
        'principal has email && principal.email == "ada@example.test"',
        'context.application == Application::"agent"',
        'context.actors.contains(Application::"agent")',
        'context.scopes.contains("read")',
        "context has authenticated_at && context.now - context.authenticated_at < 3600",
        'resource == Resource::"https://api.example"',
        'resource has provider && resource.provider == Application::"api"',
        'resource has provider && resource.provider.identifier == "api"',
        'resource has provider && resource.provider.traits.contains("mcp-server")',
        'resource has provider && resource.provider in Role::"internal"',
        'context.credential == "password" && context.registration == "managed"',
    ],
)
def test_rules_read_naturally(condition):
    """What a policy author would write validates, and holds for the request it describes."""
    text = f'permit(principal is User, action == Action::"exchange", resource) when {{ {condition} }};'

    assert check(text, SCHEMA) == []
    assert decide(policies(text), ask(authenticated_at=NOW)).allowed
    assert not decide(policies(text.replace("when", "unless")), ask(authenticated_at=NOW)).allowed


def test_deny_wins_and_is_named():
    """One forbid outweighs any permit, and the decision says which rule it was."""
    forbid = 'forbid(principal in Group::"contractors", action, resource);'

    decision = decide(policies(PERMIT, forbid), ask())

    assert not decision.allowed
    assert decision.determining == ("v1#0",)


@pytest.mark.threat("29d")
def test_an_evaluation_error_denies_and_is_reported():
    """A rule that fails while it is evaluated takes the permission with it, under its own name."""
    overflow = (
        '@id("sum") forbid(principal, action, resource) when { context.now * 9223372036854775807 > 0 };'
    )

    decision = decide(policies(PERMIT, overflow), ask())

    assert not decision.allowed
    assert len(decision.errors) == 1
    assert "`v1#sum`" in decision.errors[0]


def test_unknown_may_be_a_name():
    """What the engine has for partial evaluation is a call, whatever is between its name and the bracket."""
    assert check('@unknown("x") permit(principal is User, action, resource);', SCHEMA) == []
    assert check('permit(principal, action, resource) when { "unknown" == "(" };', SCHEMA) == []
    assert check('permit(principal, action, resource) when { unknown // why\n ("x") };', SCHEMA)


@pytest.mark.threat("29d")
def test_a_request_outside_the_schema_denies():
    """When the request cannot be built there is no decision but no."""
    broken = ask(scopes=[])
    object.__setattr__(broken, "context", {"scopes": 1})

    decision = decide(policies(PERMIT), broken)

    assert not decision.allowed
    assert decision.errors


@pytest.mark.threat("29d")
@pytest.mark.parametrize("whose", ["common_entities", "user_entities"])
def test_an_entity_outside_the_schema_denies(whose):
    """Also beside entities that were asked about before."""
    request = ask()
    assert decide(policies(PERMIT), request).allowed
    of_nothing = {"uid": {"type": "Nothing", "id": "n"}, "attrs": {}, "parents": []}

    decision = decide(policies(PERMIT), replace(request, **{whose: (*getattr(request, whose), of_nothing)}))

    assert not decision.allowed
    assert decision.errors


@pytest.mark.parametrize("roles", [("shared",), ("shared", *(f"role-{number}" for number in range(100)))])
def test_a_role_may_be_the_users_and_the_applications(roles):
    """However many there are: what is kept parsed and what is parsed anew are one set of entities."""
    both = 'principal in Role::"shared" && context.application in Role::"shared"'
    set_of_both = policies(f"permit(principal, action, resource) when {{ {both} }};")
    user = replace(ADA, roles=(*roles, "own"))

    assert decide(set_of_both, ask(user, agent(roles=roles))).allowed
    assert not decide(set_of_both, ask(ADA, agent(roles=roles))).allowed
    assert not decide(set_of_both, ask(user)).allowed


def test_a_user_is_asked_about_as_they_are_now():
    """The same application and resource, and each time another group."""
    of_contractors = policies('permit(principal in Group::"contractors", action, resource);')

    assert decide(of_contractors, ask()).allowed
    assert not decide(of_contractors, ask(replace(ADA, groups=()))).allowed
    assert decide(of_contractors, ask()).allowed


@pytest.mark.threat("29b")
@pytest.mark.parametrize(
    "name", ['"; permit(principal,action,resource); //', "line\nbreak", 'a"b', "\\", "\x00", "é\u202e"]
)
def test_names_cannot_become_rules(name):
    """Whatever a user, group, application or resource is called, it stays one value."""
    only_ada = policies('permit(principal == User::"ada", action, resource);')
    hostile = PolicyUser(name, groups=(PolicyGroup(name, name, (name,)),), roles=(name,))
    request = ask(
        hostile, agent(identifier=name, traits=(name,)), actors=(name,), resource=PolicyResource(name)
    )

    assert not decide(only_ada, request).allowed
    assert decide(policies(PERMIT), request) == cedar.PolicyDecision(True, ("v0#open",), ())


@pytest.mark.threat("29a")
@pytest.mark.parametrize(
    "name", ['"; permit(principal,action,resource); //', "a\\nb", "\\u{202e}", "v9#open", "\\0"]
)
def test_an_annotation_is_a_word_and_no_rule(name):
    """What a rule calls itself permits nothing, and a decision names it as one word of its own policy."""
    quoted = name.replace('"', '\\"')
    annotated = f'@id("{quoted}") @note("{quoted}") permit(principal, action, resource)'
    assert not decide(policies(f"{annotated} when {{ false }};"), ask()).allowed

    allowed = decide(policies(f"{annotated};"), ask())
    assert allowed.allowed
    (told,) = allowed.determining
    assert told.startswith("v0#")


@pytest.mark.threat("29a")
def test_an_annotation_cannot_be_left():
    """A quote that ends it too early leaves a text that is no policy."""
    with pytest.raises(InvalidPolicy):
        policies('@id(""; permit(principal,action,resource); //") permit(principal, action, resource);')


@pytest.mark.threat("29i")
@pytest.mark.parametrize(
    "text",
    [
        '@id("x") permit(principal, action, resource) when { false }; //',
        "permit(principal, action, resource) when { false } // no semicolon",
        'permit(principal, action, resource) when { "',
    ],
)
def test_a_text_cannot_reach_into_its_neighbour(text):
    """Each text parses by itself before texts are read together; an unfinished one is refused."""
    try:
        compiled = policies(text, "forbid(principal, action, resource);")
    except InvalidPolicy:
        return
    assert not decide(compiled, ask()).allowed
    assert decide(compiled, ask()).determining == ("v1#0",)


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("permit(principal, action, resource)", "unexpected end of input", 1, 35),
        ("permit(principal,\n actin, resource);", "invalid variable", 2, 2),
        (f"{PERMIT}\n\npermit(principal, action, resource) when {{\n  context.a.b( }};", "unexpected", 4, 16),
        (f'{PERMIT}\n// "\nforbid(principal, action, resource) when {{ "a', "invalid token", 3, 44),
        ("permit(principal,\n action,\n resource == Rsource::\"x\");", "`Rsource`", 3, 14),
        ("permit(principal, action, resource)\nwhen { context.nope };", "`nope`", 2, 16),
        ("permit(principal, action, resource)\nwhen { context.acr == \"1\" };", "optional attribute", 2, 16),
        (f'{PERMIT}\npermit(principal, action == Action::"delete", resource);', "delete", 2, 29),
        ("permit(principal == ?principal, action, resource);", "templates", 1, 1),
        (f'{PERMIT}\nforbid(principal, action, resource) when {{ unknown("x") }};', "`unknown` never", 2, 44),
        (f"{PERMIT}\n{PERMIT}", "two rules are named `open`", 2, 1),
        ("// nothing here", "no policy", 1, 1),
    ],
)  # fmt: skip
def test_problems_have_a_place(text, message, line, column):
    """Messages of parser and validator come with the line and column they are about."""
    problems = check(text, SCHEMA)

    assert problems
    assert message in problems[0].message
    assert (problems[0].line, problems[0].column) == (line, column)
    assert "policy0" not in problems[0].message


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("^context.scopes > 3", "expected Long but saw Set<String>"),
        ("true && (context.chain_depth > 1 || ^context.scopes > 3)", "expected Long"),
        ("context has scopes && ^context.scopes > 3", "expected Long"),
        ('context has acr && context.acr == "1" && ^context.scopes == "x"', "are not compatible"),
        ('^(context.chain_depth + 1) == "a"', "Long and String"),
        ("(^context.chain_depth + context.scopes) * 2 > 1", "expected Long"),
        ("!^context.scopes", "expected Bool but saw Set<String>"),
        ("^context.scopes", "expected Bool"),
        ("if ^context.scopes > 3 then true else false", "expected Long"),
        ("if true then ^context.scopes > 3 else false", "expected Long"),
        ("context.scopes.containsAny([\"a\"]) && {a: ^[1, \"b\"]}.a == [1]", "are not compatible"),
        ('[{a: 1}, {a: ^context.chain_depth - "x"}].contains({a: 1})', "expected Long but saw String"),
        ('ip("10.0.0.0/8") == ^ip("10.0.0.1").isInRange(3)', "expected ipaddr"),
        ('principal is User && ^context.scopes like "a"', "expected String"),
        ('context has acr && context.^nothing == "nothing"', "`nothing`"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "conditions", ["when { true } unless {\n  CONDITION\n}", "when {\n  CONDITION\n} when { true }"]
)
def test_types_have_the_place_of_the_expression(conditions, condition, message):
    """The engine tells the policy alone: the smallest part of it is named that it says the same of."""
    head = f'{PERMIT}\n@id("}}; when {{") forbid(principal, action, resource)'
    text = f"{head} {conditions.replace('CONDITION', condition)};\n{PERMIT.replace('open', 'more')}"

    problems = check(text.replace("^", ""), SCHEMA)
    found = [(problem.line, problem.column) for problem in problems if message in problem.message]
    assert found[0] == (3, 3 + condition.index("^"))


def test_of_the_head_the_policy_is_named():
    """There is no smaller part that could be asked about."""
    text = f'{PERMIT}\n\n@id("two")\nforbid(principal in Action::"exchange", action, resource);'
    assert {(problem.line, problem.column) for problem in check(text, SCHEMA)} == {(3, 1)}


def when(condition):
    return f"permit(principal, action, resource) when {{ {condition} }};"


# As much as a text may be, and nothing wrong in it.
LARGE = "\n".join([when("context.chain_depth == 1")] * 900)


def test_a_large_text_may_be_used():
    """It is what the work of reading others is compared with."""
    assert check(LARGE, SCHEMA) == []


@pytest.mark.threat("29h")
@pytest.mark.parametrize(
    "text",
    [
        when("context.chain_depth == 1 || " * 900 + "context.scopes > 3"),
        when("(true && " * 45 + "context.scopes > 3" + ")" * 45),
        when("!" * 1_900 + "context.scopes"),
        "\n".join([when("context.scopes > 3")] * 900),
    ],
    ids=["long", "deep", "not", "many"],
)
def test_looking_for_places_takes_little(text):
    """However many problems there are, and however far inside."""
    assert working_at_most(10, lambda: check(text, SCHEMA), as_much_as=lambda: check(LARGE, SCHEMA))


@pytest.mark.threat("29h")
@pytest.mark.parametrize(
    "condition",
    [
        "(" * 20_000 + "true" + ")" * 20_000,
        "[" * 20_000 + "]" * 20_000 + " == 1",
        "{a: " * 9_000 + "1" + "}" * 9_000 + " == 1",
        "if true then " * 4_000 + "true" + " else true" * 4_000,
        "if false then true else " * 2_500 + "true",
        "1" + "+1" * 30_000 + " == 1",
        "principal" + ".a" * 30_000,
        "principal has " + ".".join(["a"] * 30_000),
        "!" * 60_000 + "true",
        '"' + "x" * 70_000 + '" == "y"',
        "//\r" + "(" * 20_000 + "true" + ")" * 20_000 + "\n",
        "context" + '["x"]' * 10_000,
        "true }" + " when { true }" * 4_000 + " when { true",
        '"' + "\\a" * 30_000 + '" == "y"',
        '"' + '\\"' * 30_000,
    ],
    ids=lambda condition: condition[:14],
)
def test_texts_made_to_exhaust_are_refused_before_the_engine_reads_them(condition):
    """Nesting and size that would take the process down are problems like any other, and told at once."""
    assert check("permit(principal, action, resource) when { //\r (true)\n };", SCHEMA) == []
    text = f"permit(principal, action, resource) when {{ {condition} }};"

    assert working_at_most(10, lambda: check(text, SCHEMA), as_much_as=lambda: check(LARGE, SCHEMA))
    for read in (cedar.format_text, cedar.to_json, lambda text: policies(text)):
        with pytest.raises(InvalidPolicy):
            read(text)


def test_json_and_text_are_the_same_policies():
    """A policy survives the way through Cedar's JSON form."""
    text = defaults.all_defaults()[1].text

    again = cedar.from_json(cedar.to_json(text))

    assert check(again, SCHEMA) == []
    assert cedar.to_json(again) == cedar.to_json(text)


@pytest.mark.parametrize("value", [{}, {"staticPolicies": 1}, {"a": object()}])
def test_json_that_is_no_policy_is_refused(value):
    """With the same exception as broken text."""
    with pytest.raises(InvalidPolicy):
        cedar.from_json(value)


def test_large_sets_decide_the_same_from_a_slice():
    """Above the limit only rules that can concern the resource are evaluated; general ones always are."""
    texts = [
        f'@id("r{number}") permit(principal, action, resource == Resource::"r{number}");'
        for number in range(400)
    ]
    compiled = policies(*texts, '@id("no") forbid(principal == User::"eve", action, resource);')

    assert len(compiled) == 401
    first, last = PolicyResource("r0"), PolicyResource("r399")
    assert [decide(compiled, ask(resource=each)).determining for each in (first, last)] == [
        ("v0#r0",),
        ("v399#r399",),
    ]
    eve = PolicyUser("eve")
    assert {decide(compiled, ask(eve, resource=each)).determining for each in (first, last)} == {("v400#no",)}
    assert not decide(compiled, ask(resource=PolicyResource("unknown"))).allowed
    assert not decide(compiled, ask(resource=PolicyResource(""))).allowed
