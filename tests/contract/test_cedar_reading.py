"""Cedar as `zonectl` reads it, held against the engine and the schema that policies are written against."""

import cedarpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.cedar import (
    EntityName,
    ParsedPolicies,
    Vocabulary,
    is_laid_out,
    parse_name,
    parse_policies,
    without_layout,
)
from reconciler.kinds import load_kinds
from runtime.adapters import cedar
from runtime.domain.kinds import BY_NAME
from runtime.domain.policy import schema
from runtime.domain.policy.defaults import all_defaults, user_defaults

WORDS = Vocabulary.read(load_kinds().by_name["Policy"].cedar["cedar"])
SCHEMA = cedar.parse_schema(schema.current().text)


def read(text: str) -> ParsedPolicies:
    """What is read of a text."""
    return parse_policies(text, WORDS)


def forbid(condition: str) -> str:
    """A rule with that condition, for an action that leaves nothing of the context unknown."""
    return f'forbid (principal, action == Action::"exchange", resource) when {{ {condition} }};'


def engine_reads(text: str) -> bool:
    """Tell whether the engine's parser takes a text."""
    try:
        cedarpy.PolicySet.from_str(text)
    except ValueError:
        return False
    return True


# --- the grammar

GOOD = [
    'context.application == Application :: \n "x"',
    'principal is User in Group::"x"',
    "principal in (principal)",
    'principal has "identifier" && principal["identifier"] == "x"',
    "resource has provider.identifier",
    "(if true then 1 else 2) == 1",
    "if true then true else if false then true else false",
    "[if true then 1 else 2,].contains(1)",
    '{"a b": 1, c: 2,}.c == 2 && {permit: 1} == {when: 1}',
    'context.credential like "a*\\*b"',
    '"\\u{1F600}\\x41\\0\\n\\\'" == ""',
    "!!!!true && ----1 == 1",
    "1 + 2 * 3 - 4 < 5 || 1 - -1 == 2",
    'ip("1.2.3.4").isIpv4() && decimal("1.0").lessThan(decimal("2.0"))',
    'principal.\n// x\nidentifier == "a" // { ( [ \'\n',
    "context.actors.containsAny([context.application])",
]
BAD = [
    ("tru", "there is no variable `tru`", "tru"),
    ("", "expected a value, found `}`", "}"),
    ("true,", "expected `}`, found `,`", ","),
    ("principal in if true then principal else principal", "expected a value, found `if`", "if"),
    ("1 < 2 < 3", "comparisons cannot be chained", "<"),
    ("context.if == 1", "expected an attribute, found `if`", "if"),
    ("context has 'acr'", "unexpected character `'`", "'"),
    ("true & true", "unexpected character `&`", "&"),
    ('"\\q" == "x"', "an escape that Cedar does not know", '"\\q"'),
    ('"\\*" == "x"', "an escape that Cedar does not know", '"\\*"'),
    ('"\\u{D800}" == "x"', "an escape that Cedar does not know", '"\\u{D800}"'),
    ("!!!!!true", "more than 4 `!` in a row", "!"),
    ("principal in ?principal", "templates are not supported", "?principal"),
    ("principal in Group::foo", '`Group::foo` needs quotes, as in `Group::"foo"`', "Group"),
    ("[1, 2][0] == 1", "expected an attribute's name in quotes, found `0`", "0"),
    ("{a 1} == {}", "expected `:`, found `1`", "1"),
    ('principal == User::"a" == true', "comparisons cannot be chained", "=="),
    ('context.acr == "x };', "the string that begins here is not closed", '"x }; };'),
]


@pytest.mark.parametrize("condition", GOOD)
def test_takes_what_the_engine_takes(condition: str) -> None:
    """Every form that expressions have."""
    assert engine_reads(forbid(condition))
    assert read(forbid(condition)).readable


@pytest.mark.parametrize(("condition", "message", "word"), BAD)
def test_says_what_is_wrong_and_where(condition: str, message: str, word: str) -> None:
    """The engine refuses it, too; here the message says the place."""
    text = forbid(condition)
    if "?" not in condition:
        assert not engine_reads(text)
    (problem,) = read(text).problems
    assert message in problem.message
    assert text[problem.begin : problem.end] == word


def test_refuses_what_fails_whenever_it_is_evaluated() -> None:
    """The engine reads a call of `unknown`; `zonectl` and the server refuse it, at the same place."""
    text = forbid('unknown("x") == 1')
    assert engine_reads(text)
    (problem,), (told,) = read(text).problems, cedar.check(text, SCHEMA)
    assert text[problem.begin : problem.end] == "unknown"
    assert (told.message, told.line, told.column - 1) == (problem.message, 1, problem.begin)
    assert read('@unknown("x") ' + forbid("true")).readable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text holds no policy"),
        ("// nothing", "the text holds no policy"),
        ("permit", "the text ends where `(` is expected"),
        ("permit (principal, action, resource)", "the text ends where `;` is expected"),
        ("deny (principal, action, resource);", "expected `permit` or `forbid`, found `deny`"),
        ("permit (action, principal, resource);", "expected `principal`, found `action`"),
        ("permit (principal, action);", "expected `,`, found `)`"),
        ("permit (principal == ?principal, action, resource);", "templates are not supported"),
        ("permit (principal, action, resource) when true;", "expected `{`, found `true`"),
        ("permit (principal: User, action, resource);", "expected `,`, found `:`"),
        ("permit (principal, action, resource);;", "expected `permit` or `forbid`, found `;`"),
    ],
)
def test_says_what_is_wrong_with_a_policy(text: str, message: str) -> None:
    """Outside conditions, and where the text ends too early."""
    (problem,) = read(text).problems
    assert message in problem.message


def test_each_broken_policy_is_told() -> None:
    """One mistake does not hide the next one, and nothing is told of names in such a text."""
    good = 'permit (principal in Group::"a", action, resource);'
    found = read(f"{good} permit (principal;\n{good} permit (principal, action, resource) when {{ 1 + }};")
    assert [problem.message for problem in found.problems] == [
        "expected `,`, found `;`",
        "expected a value, found `}`",
    ]
    assert not found.readable
    assert found.mentions == ()


@pytest.mark.parametrize("opening", ["(", "[", "{a:", "if ", "[].f(", "!("])
def test_nesting_is_no_way_to_break_it(opening: str) -> None:
    """A stranger's file cannot exhaust the interpreter's stack."""
    (problem,) = read(forbid(opening * 20_000)).problems
    assert "brackets are nested deeper than" in problem.message


@pytest.mark.parametrize("depth", [10, 45])
def test_what_the_server_takes_is_not_too_deep(depth: int) -> None:
    """The limit is not below the server's."""
    text = forbid("(" * depth + "true" + ")" * depth)
    assert cedar.check(text, SCHEMA) == []
    assert read(text).readable


_TOKENS = st.sampled_from(
    [
        *[
            "principal",
            "action",
            "resource",
            "context",
            "true",
            "false",
            "if",
            "then",
            "else",
            "in",
            "is",
            "like",
            "has",
            "permit",
            "when",
            "foo",
            "ip",
        ],
        *[
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ".",
            ":",
            "::",
            "==",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "&&",
            "||",
            "+",
            "-",
            "*",
            "!",
            ";",
            "@",
            "/",
            "%",
            "//",
            "?principal",
            "'x'",
            "é",
        ],
        *["1", '"a"', '"\\n"', "Group", "User", "Action", "identifier", "acr", "contains"],
        "\n",
    ]
)


@given(st.lists(_TOKENS, max_size=12).map(" ".join))
@example("principal in principal in principal")
@settings(max_examples=400)
def test_refuses_nothing_that_the_engine_takes(condition: str) -> None:
    """Whatever tokens stand in a condition, a valid text never becomes an error offline."""
    text = forbid(condition)
    found = read(text)
    if engine_reads(text) and "?" not in text:
        assert found.readable, found.problems


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(
        ["principal", "resource", "context.acr", "1", "true", '"x"', 'Group::"g"', "action", "context", "[]"]
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["==", "in", "<", "&&", "||", "+", "-", "*", "!="])
        return st.one_of(
            st.tuples(inner, operators, inner).map(" ".join),
            inner.map(lambda each: f"({each})"),
            inner.map(lambda each: f"!{each}"),
            st.tuples(inner, inner, inner).map(lambda each: "if {} then {} else {}".format(*each)),
            st.tuples(inner, inner).map(lambda each: "[{}, {}]".format(*each)),
            st.tuples(inner, inner).map(lambda each: '{{a: {}, "b c": {}}}'.format(*each)),
            inner.map(lambda each: f"{each}.identifier"),
            inner.map(lambda each: f"{each} has identifier"),
            inner.map(lambda each: f"{each} is User in {each}"),
            inner.map(lambda each: f"{each}.contains({each})"),
            inner.map(lambda each: f'{each} like "*"'),
        )

    return st.recursive(leaf, grow, max_leaves=8)


@given(_expressions())
@example('principal && principal like "*" + principal')
@example("principal has name + 1 == 2")
@settings(max_examples=400)
def test_reads_and_refuses_as_the_engine_does(condition: str) -> None:
    """Of texts that are nearly right, both take the same ones."""
    text = forbid(condition)
    assert read(text).readable == engine_reads(text), text


# --- names and words


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(sorted(WORDS.kinds)))
@example('a"b\\c', "Group")
@example("line\nbreak\0", "Resource")
def test_a_name_is_read_as_the_engine_reads_it(id_: str, type_: str) -> None:
    """Written by the engine, with its escapes, and read here."""
    as_json = {
        "staticPolicies": {
            "policy0": {
                "effect": "forbid",
                "principal": {"op": "All"},
                "action": {"op": "All"},
                "resource": {"op": "All"},
                "conditions": [
                    {
                        "kind": "when",
                        "body": {
                            "==": {
                                "left": {"Var": "principal"},
                                "right": {"Value": {"__entity": {"type": type_, "id": id_}}},
                            }
                        },
                    }
                ],
            }
        },
        "templates": {},
        "templateLinks": [],
    }
    text = cedar.from_json(as_json)
    (mention,) = read(text).mentions
    assert mention.name == EntityName(type_, id_)
    written = text[mention.begin : mention.end]
    assert parse_name(written) == mention.name
    assert parse_name(str(mention.name)) == mention.name


def test_the_words_are_those_of_the_schema() -> None:
    """Entity types lead to kinds that have manifests; what has none is for the server to know."""
    namespace = schema.as_json(schema.CURRENT_VERSION)[""]
    assert set(WORDS.kinds) == set(namespace["entityTypes"])
    assert WORDS.actions == set(namespace["actions"])
    assert {name for name, kind in WORDS.kinds.items() if kind is None} == {"User"}
    named = {(BY_NAME[kind].manifest, BY_NAME[kind].handle) for kind in filter(None, WORDS.kinds.values())}
    assert named == {(True, "identifier")}


@pytest.mark.parametrize("default", [*all_defaults(), *user_defaults()], ids=lambda each: each.name)
def test_the_default_policies_are_read(default: object) -> None:
    """What every zone starts with has nothing wrong with it, and forbids nothing."""
    found = read(default.text)
    assert (found, {each.effect for each in found.rules}) == (
        ParsedPolicies((), (), rules=found.rules),
        {"permit"},
    )


SCOPES = ("{0}", '{0} == U::"a"', '{0} in U::"a"', "{0} is U")
CONDITIONS = (
    "when { context.n == 1 }",
    "unless { context.n == 1 }",
    "when { context.m == 2 }",
    "unless { context.m == 2 }",
    "when { context has m }",
    "when { [context.n, 2,].contains(1) }",
    "when { context has m && context.m == 2 }",
    "when { context.n == 1 && (context has m || context.n == 0) }",
    "when { context has m || context.n == 1 && context.n == 0 }",
    "when { if context has m then context.m == 2 else false && context.n == 1 }",
    "unless { context has m || context.n == 1 }",
    "unless { context has m && context.n == 1 }",
    "unless { if context has m then true else false || context.n == 1 }",
)
HEADS = st.tuples(
    *(st.sampled_from([each.format(name) for each in SCOPES]) for name in ("principal", "resource"))
)
RULES = st.tuples(HEADS, st.lists(st.sampled_from(CONDITIONS), max_size=3))
REQUESTS = [
    {"principal": f'U::"{who}"', "action": 'A::"x"', "resource": f'U::"{what}"', "context": context}
    for who in "ab"
    for what in "ab"
    for context in ({"n": 1}, {"n": 1, "m": 2}, {"n": 0, "m": 3}, {"n": 0})
]


def written(rule: tuple[tuple[str, str], list[str]], layout: str) -> str:
    """A rule as a text."""
    (principal, resource), conditions = rule
    return f"permit ({principal}, action,{layout}{resource}{layout}){layout.join(['', *conditions])};"


@given(RULES, RULES)
def test_what_covers_a_rule_applies_wherever_that_does(one: object, other: object) -> None:
    """Asked of the engine, for every request there is; and a rule covers itself however it is laid out."""
    texts = [written(one, " "), written(other, "\n // x \n")]
    (first,), (second,) = (read(text).rules for text in texts)
    assert first.covers(read(written(one, "\n\n")).rules[0])
    allowed = [
        [str(cedarpy.is_authorized(request, text, []).decision) for request in REQUESTS] for text in texts
    ]
    if first.covers(second):
        assert all("Allow" in mine for mine, its in zip(*allowed, strict=True) if "Allow" in its)


def test_layout_comments_and_order_of_conditions_make_no_other_rule() -> None:
    """And what stands in a string does."""
    conditions = ['when { ["a", "b"].contains(context.acr) }', "unless { context has acr }"]
    plain = read(f"forbid (principal, action, resource) {' '.join(conditions)};").rules
    conditions[0] = conditions[0].replace('"b"', '"b" , // x\n')
    other = read(f'@id("x") forbid(principal,action,resource,)\n{" ".join(reversed(conditions))} ;').rules
    assert plain == other
    assert (
        plain
        != read(f"forbid (principal, action, resource) {' '.join(conditions)};".replace('"a"', '"a "')).rules
    )


SPACES = st.sampled_from(
    ["", " ", "\n", "\r\n", "// note", "// note\n", "// note\r", " //\n", "// a \n// b\n"]
)
WORDS_OF_RULES = ["permit", "forbid", "(", "principal", ",", "action", ",", "resource", ",", ")", ";"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Rules of which comments take in parts, each in some layout."""
    words = draw(st.lists(st.sampled_from(["permit", "forbid"]), min_size=1, max_size=3))
    parts = [part for effect in words for part in (effect, *WORDS_OF_RULES[2:])]
    return "".join(draw(SPACES) + part for part in parts) + draw(SPACES)


def decided(text: str) -> str | None:
    """The rules of a text as the engine has them; None where it takes none."""
    return cedarpy.policies_to_json_str(text) if engine_reads(text) else None


@settings(max_examples=400)
@given(texts(), texts())
@example("// note\nforbid(principal,action,resource);", "// noteforbid(principal,action,resource);")
@example("// a\rpermit(principal,action,resource);", "// apermit(principal,action,resource);")
def test_texts_that_are_the_same_but_for_layout_decide_the_same(one: str, other: str) -> None:
    """Whatever is in comments; and a text is what the engine makes of it."""
    if (rules := decided(one)) is None:
        return
    assert is_laid_out(one, cedar.format_text(one))
    assert not [
        squeezed
        for squeezed in (other, without_layout(one), one.replace("\n", ""), one.replace("\r", " "))
        if (is_laid_out(one, squeezed) or without_layout(one) == without_layout(squeezed))
        and decided(squeezed) != rules
    ]


def test_a_layout_adds_no_comment() -> None:
    """It leaves some out; one that was not written is somebody's."""
    written = "permit (principal, action, resource); // one\n// two\n"
    assert is_laid_out(written, "permit(principal,action,resource);// one")
    assert not is_laid_out(written, written + "// three\n")
    assert not is_laid_out(written, written.replace("two", "2"))
    assert not is_laid_out(written, written.replace("permit", "forbid"))


WORDS_USED = [
    'context.acr == "x"',
    'context has acr && context.acr == "x"',
    'context has "authenticated_at"',
    'context["credential"] == "x"',
    'principal has email && principal.email == "x"',
    'context.application.identifier == "x"',
    'resource has provider && resource.provider.registration == "managed"',
    'User::"x".identifier == "x"',
    '(if true then context.application else context.application).credential == "x"',
    "{foo: 1}.foo == 1",
    'action in Action::"exchange"',
]
MISSPELT = [
    ('context.acrr == "x"', "acrr"),
    ("context has acrr", "acrr"),
    ('context has "acrr"', '"acrr"'),
    ('context["acrr"] == "x"', '"acrr"'),
    ("principal has emial", "emial"),
    ('(principal).emial == "x"', "emial"),
    ('context.application.identifer == "x"', "identifer"),
    ("resource has provider && resource.provider has foo", "foo"),
    ("resource has provider.foo", "foo"),
    ('User::"x" has emial', "emial"),
    ('User::"x".emial == ""', "emial"),
    ("action has foo", "foo"),
    ('context has acrr && context.acrr == "x"', "acrr"),
    ("(if true then context.application else context.application).foo == 1", "foo"),
    ('principal in Grup::"x"', "Grup"),
    ("principal is Usr", "Usr"),
    ('principal is User in Grup::"x"', "Grup"),
    ('principal in Foo::Group::"x"', "Foo"),
    ('action == Action::"exchnge"', '"exchnge"'),
    ('action in [Action::"exchange", Action::"exchnge"]', '"exchnge"'),
    ('"a" == "b" && [context.application].contains(context.aplication)', "aplication"),
]


@pytest.mark.parametrize("condition", WORDS_USED)
def test_words_of_the_schema_are_known(condition: str) -> None:
    """Wherever they stand."""
    assert read(forbid(condition)).problems == ()


@pytest.mark.parametrize(("condition", "word"), MISSPELT)
def test_other_words_are_not(condition: str, word: str) -> None:
    """Attributes, also after `has`, where the engine takes any; entity types; actions."""
    text = forbid(condition)
    problem, *_ = read(text).problems
    assert problem.code.startswith("unknown-")
    assert text[problem.begin : problem.end] == word


@given(st.sampled_from(WORDS_USED), st.sampled_from(sorted(WORDS.actions)))
def test_no_valid_word_is_refused(condition: str, action: str) -> None:
    """What the engine's validation takes has no unknown word."""
    text = f'forbid (principal, action == Action::"{action}", resource) unless {{ {condition} }};'
    if not cedarpy.validate_policies(text, SCHEMA).errors:
        assert read(text).problems == ()


# --- how a policy goes by what it names

WAYS = [
    ('forbid (principal in Group::"g", action, resource);', 1),
    ('forbid (principal, action, resource == Resource::"g");', 1),
    ('forbid (principal is User in Group::"g", action, resource);', 1),
    ('forbid (principal, action, resource) when { principal in [Group::"g", Group::"h"] };', 1),
    ('forbid (principal, action, resource) unless { principal in Group::"g" };', -1),
    ('permit (principal, action, resource) unless { principal in Group::"g" };', -1),
    ('permit (principal, action, resource) unless { !(principal in Group::"g") };', 1),
    ('permit (principal, action, resource) unless { principal in Group::"g" } when { true };', -1),
    ('forbid (principal, action, resource) when { !(principal in Group::"g" && !false) };', -1),
    ('forbid (principal, action, resource) when { !!(principal in Group::"g") };', 1),
    ('forbid (principal, action, resource) when { context.application != Application::"g" };', -1),
    ('forbid (principal, action, resource) when { Application::"g" != context.application };', -1),
    ('forbid (principal, action, resource) when { true || Application::"g" == context.application };', 1),
    ('forbid (principal, action, resource) when { (principal in Group::"g") == false };', 0),
    ('forbid (principal, action, resource) when { false != (principal in Group::"g") };', 0),
    ('forbid (principal, action, resource) when { if principal in Group::"g" then false else true };', 0),
    ('forbid (principal, action, resource) when { if true then principal in Group::"g" else false };', 1),
    ('forbid (principal, action, resource) when { [Application::"g"].contains(context.application) };', 1),
    ('forbid (principal, action, resource) when { ![Resource::"g"].contains(resource) };', -1),
    ('forbid (principal, action, resource) when { [Resource::"g"].isEmpty() };', 0),
    ('forbid (principal, action, resource) when { {a: principal in Group::"g"}.a };', 0),
]


@pytest.mark.parametrize(("text", "sense"), WAYS)
def test_a_mention_says_how_the_policy_goes_by_it(text: str, sense: int) -> None:
    """Whoever is left out by `unless`, `!` and `!=` is who the policy applies to."""
    reading = read(text)
    assert reading.readable
    found = [each for each in reading.mentions if each.name.id == "g"]
    assert [(each.effect, each.sense) for each in found] == [(text.split()[0], sense)]
