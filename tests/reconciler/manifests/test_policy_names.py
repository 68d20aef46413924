"""Entity names in Cedar texts, checked against the manifests without a server."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconciler.factories import manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import ExternalName, Manifest
from reconciler.manifests.text_spans import span_inside, span_of
from reconciler.manifests.yaml_reader import read_documents
from reconciler.plan.builder import PlanImpossible

HEAD = "apiVersion: zonewright/v1\n"
COMPANY = "---\n".join(
    HEAD + text
    for text in (
        "kind: Zone\nmetadata: {name: acme}\nspec: {name: Acme}\n",
        "kind: Zone\nmetadata: {name: other}\nspec: {name: Other}\n",
        "kind: Group\nmetadata: {zone: acme, name: contractors}\nspec: {name: Contractors}\n",
        "kind: Group\nmetadata: {zone: other, name: partners}\nspec: {name: Partners}\n",
        (
            "kind: Group\nmetadata: {zone: acme, name: people}\n"
            "spec: {name: Staff, identifier: staff}\nlifecycle: {previous_names: [employees]}\n"
        ),
        "kind: Role\nmetadata: {zone: acme, name: scheduler}\n",
        "kind: Application\nmetadata: {zone: acme, name: agent}\nspec: {name: Agent}\n",
        (
            "kind: Resource\nmetadata: {zone: acme, name: payroll}\n"
            "spec: {name: Payroll, identifier: 'https://payroll.acme.example/api', application: agent}\n"
        ),
    )
)
GOOD = {
    "Group": "contractors",
    "Role": "scheduler",
    "Application": "agent",
    "Resource": "https://payroll.acme.example/api",
}
MISSPELT = {
    "Group": "contractorz",
    "Role": "schedular",
    "Application": "agnt",
    "Resource": "https://payroll.acme.example/apu",
}
# Each with the name, as it is written, in the place of {}.
PLACES = {
    "principal": "forbid (principal in {}, action, resource);",
    "principal is": "forbid (principal is User in {}, action, resource);",
    "resource": "forbid (principal, action, resource == {});",
    "a list": 'forbid (principal, action, resource) when {{ principal in [Group::"contractors", {}] }};',
    "when": "permit (principal, action, resource);\nforbid (principal, action, resource)\n"
    "when {{ principal in {} }};",
    "unless": "permit (principal, action, resource) unless {{ context.application == {} }};",
    "is in": "forbid (principal, action, resource) when {{ principal is User in {} }};",
    "a branch": "forbid (principal, action, resource) when {{ if true then principal in {} else false }};",
    "a record": "forbid (principal, action, resource) when {{ {{a: {}}} == {{}} }};",
    "a call": "forbid (principal, action, resource) when {{ principal.dependencies.contains({}) }};",
    "a negation": "forbid (principal, action, resource) when {{ !(principal in {}) && true }};",
    "after a comment": 'forbid (principal, // Group::"x"\n action, resource) unless {{ resource in {} }};',
    "after a string": 'forbid (principal, action, resource) when {{ "R::\\"x" == "" || principal in {} }};',
}

Validated = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def validated(config: Any, zonectl: Callable[..., Any]) -> Validated:
    """What is wrong with a policy in a file of its own, beside the company."""
    config.write("company.yaml", COMPANY)

    def check(cedar: str, spec: str = "", *, inline: bool = False) -> list[dict[str, Any]]:
        config.write("policies/rule.cedar", cedar)
        text = f"cedar: {json.dumps(cedar)}" if inline else "cedar_file: policies/rule.cedar"
        head = f"{HEAD}kind: Policy\nmetadata: {{zone: acme, name: rule}}\n"
        config.write("policy.yaml", f"{head}spec:\n  {text}\n{spec}")
        result = zonectl("validate", config, "--output", "json")
        found = json.loads(result.out)
        assert (result.exit_code == 0) == found["valid"]
        return list(found["diagnostics"])

    return check


def misspelt(validated: Validated, cedar: str, meant: str, word: str) -> dict[str, Any]:
    """The one thing wrong with a policy in which a word is misspelt, after it was right as meant."""
    assert validated(cedar.replace(word, meant)) == []
    (found,) = validated(cedar)
    assert found["path"] == "policies/rule.cedar"
    line = cedar.splitlines()[found["line"] - 1]
    assert word in line[found["column"] - 1 : found["end_column"] - 1]
    assert f"did you mean `{meant}`?" in found["message"]
    return found


# --- row 48


@pytest.mark.threat("48a")
def test_a_misspelt_group_is_told(validated: Validated) -> None:
    """A rule about a group that nobody is in forbids nothing."""
    cedar = 'forbid (\n  principal in Group::"contractorz",\n  action,\n  resource\n);'
    found = misspelt(validated, cedar, "contractors", "contractorz")
    assert (found["code"], found["line"], found["column"]) == ("unknown-name", 2, 16)
    assert found["message"].startswith("no manifest in zone `acme` describes Group `contractorz`;")


@pytest.mark.threat("48b")
def test_a_misspelt_role_is_told(validated: Validated) -> None:
    """So does one about a role that nobody holds."""
    cedar = 'forbid (principal, action, resource)\nwhen { principal in Role::"schedular" };'
    assert misspelt(validated, cedar, "scheduler", "schedular")["code"] == "unknown-name"


@pytest.mark.threat("48c")
def test_a_misspelt_resource_is_told(validated: Validated) -> None:
    """And one about a resource that nobody asks for."""
    cedar = 'forbid (principal, action, resource == Resource::"https://payrol.acme.example/api");'
    found = misspelt(validated, cedar, "https://payroll.acme.example/api", "https://payrol.acme.example/api")
    assert found["code"] == "unknown-name"


@pytest.mark.threat("48d")
def test_a_misspelt_action_is_told(validated: Validated) -> None:
    """There are two actions, and no manifest makes another."""
    cedar = 'forbid (principal, action in [Action::"direct", Action::"exchang"], resource);'
    assert misspelt(validated, cedar, "exchange", "exchang")["code"] == "unknown-action"


@pytest.mark.threat("48e")
def test_a_misspelt_attribute_is_told(validated: Validated) -> None:
    """After `has`, too: that is false of what never is there, and the engine then takes whatever follows."""
    cedar = 'forbid (principal, action, resource) unless {\n  context has acrr && context.acrr == "high"\n};'
    assert validated(cedar.replace("acrr", "acr")) == []
    assert [(each["code"], each["line"], each["column"]) for each in validated(cedar)] == [
        ("unknown-attribute", 2, 15),
        ("unknown-attribute", 2, 31),
    ]


@pytest.mark.threat("48f")
def test_what_was_renamed_is_told(validated: Validated, config: Any) -> None:
    """The policy goes on naming what nobody is called any more; the message says the new name."""
    cedar = 'forbid (principal in Group::"{}", action, resource);'
    assert validated(cedar.format("contractors")) == []
    renamed = "name: externals}\nlifecycle: {previous_names: [contractors]}\nspec"
    config.write("company.yaml", COMPANY.replace("name: contractors}\nspec", renamed))

    (found,) = validated(cedar.format("contractors"))
    assert found["code"] == "unknown-name"
    assert "it is called `externals` now (company.yaml:" in found["message"]
    assert validated(cedar.format("externals")) == []


# --- names and places


@pytest.mark.parametrize("inline", [False, True], ids=["file", "inline"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("type_", GOOD)
def test_a_name_is_checked_in_every_place_of_the_grammar(
    validated: Validated, type_: str, place: str, inline: bool
) -> None:
    """In the head, in conditions, in lists, records, calls and branches; at its line and column."""
    good, bad = (PLACES[place].format(f'{type_}::"{name}"') for name in (GOOD[type_], MISSPELT[type_]))
    assert validated(good, inline=inline) == []
    (found,) = validated(bad, inline=inline)
    assert found["code"] == "unknown-name"
    assert f"{type_} `{MISSPELT[type_]}`; did you mean `{GOOD[type_]}`?" in found["message"]
    if not inline:
        line = bad.splitlines()[found["line"] - 1]
        named = line[found["column"] - 1 : found["end_column"] - 1]
        assert named == f'{type_}::"{MISSPELT[type_]}"'


@pytest.mark.parametrize(
    "cedar",
    [
        '// Group::"nobody"\npermit (principal, action, resource);',
        '@id("Group::\\"nobody\\"") permit (principal, action, resource);',
        'permit (principal, action, resource) when { context.credential == "Role::\\"nobody\\"" };',
        'permit (principal, action, resource) when { context.credential like "Role::*" };',
        "permit (principal, action, resource) when { {Group: 1}.Group == 1 };",
        'permit (principal == User::"ada@acme.example", action, resource);',
        "permit (principal is User, action, resource) when { principal has email };",
        'permit (principal in Group::"contr\\u{61}ct\\x6frs", action, resource);',
        'permit (principal in Group::"staff", action, resource);',
    ],
)
def test_what_only_looks_like_an_unknown_name_is_none(validated: Validated, cedar: str) -> None:
    """Comments, strings, annotations; escapes; what is called otherwise than its manifest; users."""
    assert validated(cedar) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ('Group::"CONTRACTORS"', "did you mean `contractors`?"),
        ('Group::"people"', 'policies use the identifier: write `Group::"staff"`'),
        ('Group::"partners"', "the one of that name is in zone `other`, and policies stay within a zone"),
        ('Group::"employees"', "it is called `staff` now"),
        ('Role::"contractors"', "list it in `external_names` if it is there but not in git"),
        ('Group::""', "list it in `external_names`"),
        ('Group::"contractors\\0"', "did you mean `contractors`?"),
    ],
)
def test_says_what_was_meant(validated: Validated, name: str, hint: str) -> None:
    """Or what to write, when nothing is like it."""
    (found,) = validated(f"forbid (principal in {name}, action, resource);")
    assert hint in found["message"]


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ('Resource::"payroll"', 'Resource::"https://payroll.acme.example/api"'),
        ('Group::"people"', 'Group::"staff"'),
    ],
)
def test_the_name_of_a_manifest_is_answered_with_the_identifier(
    validated: Validated, name: str, identifier: str
) -> None:
    """Not with the lists of names that are not in git: a rule about such a name would protect nothing."""
    cedar = "forbid (principal, action, resource) when {{ resource in {} }};"
    assert validated(cedar.format(identifier)) == []
    (found,) = validated(cedar.format(name))
    assert "this is the name of its manifest (company.yaml:" in found["message"]
    assert f"policies use the identifier: write `{identifier}`" in found["message"]
    assert "_names" not in found["message"]


def test_a_renamed_object_with_a_fixed_identifier_is_told_to_keep_it(
    validated: Validated, config: Any
) -> None:
    """Otherwise a plan replaces it: its manifest's name would be its identifier."""
    cedar = 'forbid (principal in Role::"scheduler", action, resource);'
    assert validated(cedar) == []
    role = "metadata: {zone: acme, name: scheduler}\n"
    renamed = role.replace("scheduler", "planner") + "lifecycle: {previous_names: [scheduler]}\n"
    config.write("company.yaml", COMPANY.replace(role, renamed))
    (found,) = validated(cedar)
    assert "Role `planner` had that name (company.yaml:" in found["message"]
    assert "its identifier cannot change: write `identifier: scheduler` in its `spec`" in found["message"]

    config.write("company.yaml", COMPANY.replace(role, renamed + "spec: {identifier: scheduler}\n"))
    assert validated(cedar) == []


# --- names that are meant

LEAVERS = 'forbid (principal in Group::"leavers", action, resource);'


@pytest.mark.parametrize("member", ["absent_names", "external_names"])
def test_what_is_said_is_no_mistake(validated: Validated, member: str) -> None:
    """A rule for a group that comes later, or that another tool makes."""
    assert validated(LEAVERS) != []
    assert validated(LEAVERS, f"  {member}: ['Group::\"leavers\"']\n") == []


@pytest.mark.parametrize(
    ("listed", "code", "message"),
    [
        ("absent_names: ['Group::\"leaver\"']", "unused-name", 'did you mean `Group::"leavers"`?'),
        ("absent_names: ['Role::\"leavers\"']", "unused-name", "the policy does not name"),
        ("absent_names: ['Group::\"contractors\"']", "unused-name", "is described at company.yaml:"),
        ("external_names: ['Group::\"contractors\"']", "unused-name", "is described at company.yaml:"),
        ("external_names: ['User::\"ada\"']", "unused-name", "`User` is not a kind of manifest"),
        ("absent_names: ['Group::\"\\q\"']", "invalid", "is not the name of an entity"),
        ("absent_names: [leavers]", "wrong-format", "must be the name of an entity, written as in policies"),
        ("absent_names: ['Group::\"a\" ']", "wrong-format", "as in policies"),
    ],
)
def test_a_list_says_no_more_than_it_has_to(
    validated: Validated, listed: str, code: str, message: str
) -> None:
    """What is listed in vain would hide the next mistake."""
    cedar = (
        'forbid (principal in Group::"contractors", action, resource)'
        ' when { principal == User::"ada" || principal in Group::"leavers" };'
    )
    absent = "  absent_names: ['Group::\"leavers\"']\n"
    assert validated(cedar, absent) == []
    found = validated(cedar, f"  {listed}\n" + ("" if "absent" in listed else absent))
    wrong = [each for each in found if each["path"] == "policy.yaml"]
    assert [each["code"] for each in wrong] == [code]
    assert wrong[0]["line"] == 6
    assert message in wrong[0]["message"]


def test_users_may_be_said_to_be_absent(validated: Validated) -> None:
    """Only the server knows them, and asks for that."""
    cedar = 'forbid (principal == User::"ada@acme.example", action, resource);'
    assert validated(cedar, "  absent_names: ['User::\"ada@acme.example\"']\n") == []


# --- what is wrong with the text itself


def test_syntax_is_told_in_the_file(validated: Validated, zonectl: Callable[..., Any], config: Any) -> None:
    """With line, column, the line itself, and nothing about names in it."""
    (found,) = validated('forbid (\n  principal in Group::"contractorz"\n  action,\n  resource\n);')
    assert (found["path"], found["line"], found["column"]) == ("policies/rule.cedar", 3, 3)
    assert found["message"] == "expected `,`, found `action`"
    shown = zonectl("validate", config).out
    assert "rule.cedar:3:3: error: expected `,`, found `action`\n  3 |   action,\n    |   ^^^^^^\n" in shown


def test_a_misspelt_keyword_is_told(validated: Validated) -> None:
    """With what was meant, as anywhere else."""
    (found,) = validated("forbid (principal, action, resource) when { contxt.acr };")
    assert found["message"] == "there is no variable `contxt`; did you mean `context`?"


# --- texts in the manifest


NAMED = 'Group::"contractorz"'
RULE = f"forbid (principal in {NAMED}, action, resource);"


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (f"spec:\n  cedar: |\n    // {NAMED}\n    {RULE}\n", (7, 26)),
        (f"spec:\n  cedar: |-\n\n    forbid (\n      principal in {NAMED},\n action, resource);\n", None),
        (f"spec:\n  cedar: >-\n    forbid (\n    principal in {NAMED},\n    action, resource);\n", (7, 18)),
        (f"spec: {{cedar: '{RULE}'}}\n", (4, 37)),
        (f"spec:\n  cedar: {RULE}\n", (5, 31)),
        (f"spec: {{cedar: {json.dumps(RULE)}}}\n", (4, 15)),
    ],
)
def test_a_text_in_the_manifest_has_places_too(
    config: Any, zonectl: Callable[..., Any], spec: str, place: tuple[int, int] | None
) -> None:
    """The line and column in the YAML; where escapes have changed the text, those of its beginning."""
    config.write("company.yaml", COMPANY)
    config.write("policy.yaml", f"{HEAD}kind: Policy\nmetadata: {{zone: acme, name: rule}}\n{spec}")
    (found,) = json.loads(zonectl("validate", config, "--output", "json").out)["diagnostics"]
    assert found["path"] == "policy.yaml"
    if place is None:
        assert found["code"] == "yaml"
    else:
        assert (found["code"], found["line"], found["column"]) == ("unknown-name", *place)


PIECES = ["a", NAMED, " ", "\n", "  ", "b", "//", "\n\n"]


@given(st.lists(st.sampled_from(PIECES), min_size=1).map("".join))
@settings(max_examples=200)
def test_places_in_a_block_are_those_of_the_text(body: str) -> None:
    """In a literal block each stretch is found where it stands, whatever stands around it."""
    indented = "".join(f"    {line}\n" for line in body.split("\n"))
    source = f"before: 1\nx:\n  text: |2\n{indented}after: 1\n"
    (document,) = read_documents(source, places=True)
    text, value = document.value["x"]["text"], document.places["x", "text"].value
    lines = source.splitlines()
    begins = [begin for begin in range(len(text)) if text.startswith(NAMED, begin)]
    spans = [span_inside(source, value, text, begin, begin + len(NAMED)) for begin in begins]
    found = [span for span in spans if span is not None]
    assert [lines[each.line][each.column : each.end_column] for each in found] == [NAMED] * len(begins)
    assert [each.line for each in found] == [
        value.line + 1 + span_of(text, begin, begin).line for begin in begins
    ]


# --- what is not in git, in the plan


class TestExternalNames:
    """`external_names` are looked up on the server."""

    def policy(self, *names: str) -> Manifest:
        """A policy that counts on groups which are not in git."""
        made = manifest("Policy", "rule", cedar="forbid (principal, action, resource);")
        return replace(made, outside=tuple(ExternalName("Group", name, "r.cedar:1:8") for name in names))

    def test_what_is_there_is_no_problem(self, world: World) -> None:
        """Made by hand, or another configuration's."""
        settle(world, [zone()])
        world.add("Group", {"identifier": "leavers", "name": "L"}, world.find("Zone", "workforce")["id"])
        assert plan_for(world, [zone(), self.policy("leavers")]).summary() == {"create": 1}

    def test_what_is_not_there_is(self, world: World) -> None:
        """The plan says which policy, and where its text has the name."""
        company = [zone(), manifest("Group", "ours", name="O")]
        settle(world, company)
        assert plan_for(world, [*company, self.policy("ours")]).summary() == {"create": 1}
        with pytest.raises(PlanImpossible, match=r"^r.cedar:1:8: Policy `rule` .* names Group `leavers`, "):
            plan_for(world, [*company, self.policy("leavers")])

    def test_what_this_plan_deletes_is_not_there(self, world: World) -> None:
        """A group of this configuration's that no manifest describes any more."""
        settle(world, [zone(), manifest("Group", "ours", name="O")])
        with pytest.raises(PlanImpossible, match="Group `ours`, which does not exist on the server"):
            plan_for(world, [zone(), self.policy("ours")])

    def test_a_new_zone_is_left_to_the_server(self, world: World) -> None:
        """It comes with things of its own."""
        assert plan_for(world, [zone(), self.policy("leavers")]).operations
