"""The canonical form of manifests: what formatting changes, and what it preserves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconciler.configurations import configurations

from reconciler.kinds import Kinds, Manifest, load_kinds
from reconciler.manifests.formatting import FormattingImpossible, format_manifests
from reconciler.manifests.yaml_lines import split_yaml_lines
from reconciler.manifests.yaml_reader import read_documents

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "config").rglob("*/*.yaml"))
HEAD = "apiVersion: zonewright/v1\n"
ROLE = HEAD + "kind: Role\nmetadata: {zone: acme, name: r}\n"
POLICY = HEAD + "kind: Policy\nmetadata: {zone: acme, name: p}\n"
GROUP = HEAD + "kind: Group\nmetadata: {zone: acme, name: g}\n"


def formatted(text: str) -> str:
    """The canonical form of a text."""
    return format_manifests(text, load_kinds())


def values(text: str) -> list[str]:
    """What a text says, without the order of members."""
    return [json.dumps(each.value, sort_keys=True) for each in read_documents(text)]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        pytest.param(
            "kind: Role\nspec: {}\nmetadata: {name: r, zone: acme}\napiVersion: zonewright/v1\n",
            ROLE + "spec: {}\n",
            id="the envelope comes first, and the zone before the name",
        ),
        pytest.param(
            GROUP + "spec:\n  members: [a@x.example]\n  name: G\n",
            GROUP + "spec:\n  name: G\n  members: [a@x.example]\n",
            id="the members of spec have the order of the kind",
        ),
        pytest.param(
            GROUP + "spec:\n  # who\n  members: []  # none\n\n  # what\n  name: G\n",
            GROUP + "spec:\n\n  # what\n  name: G\n  # who\n  members: []  # none\n",
            id="comments and empty lines go along with the member below",
        ),
        pytest.param(
            HEAD + "kind: Role\nmetadata: {zone: acme, labels: {b: x, a: z}, name: r}\nspec: {}\n",
            HEAD + "kind: Role\nmetadata: {zone: acme, name: r, labels: {b: x, a: z}}\nspec: {}\n",
            id="labels keep their order",
        ),
        pytest.param(
            GROUP + "spec:\n      name: G\n      members:\n      - a@x.example\n",
            GROUP + "spec:\n  name: G\n  members:\n    - a@x.example\n",
            id="two columns deeper at each level, and lists below their member",
        ),
        pytest.param(
            GROUP + "spec:\n    # the name\n    name: G\n    # the end\n# and of all\n",
            GROUP + "spec:\n  # the name\n  name: G\n  # the end\n# and of all\n",
            id="comments are indented as what they belong to",
        ),
        pytest.param(
            GROUP + "spec:\n  name:  'G'   # x\n  members:    []\n",
            GROUP + "spec:\n  name: G   # x\n  members: []\n",
            id="one space behind a colon",
        ),
        pytest.param(
            GROUP + "spec:\n  name: 'G'       # one\n  members: []     # two\n",
            GROUP + "spec:\n  name: G         # one\n  members: []     # two\n",
            id="comments in one column stay so",
        ),
        pytest.param(
            GROUP + "spec: {name: G,\n  members: [a@x.example,\n    b@x.example]}\n",
            GROUP + "spec:\n  name: G\n  members:\n    - a@x.example\n    - b@x.example\n",
            id="brackets over several lines become a block",
        ),
        pytest.param(
            ROLE + "spec: {description: ~}\nlifecycle:\n",
            ROLE + "spec: {description: null}\nlifecycle: null\n",
            id="null is written so",
        ),
        pytest.param(
            ROLE + "spec: {}\nlifecycle: {protect: TRUE}\n",
            ROLE + "spec: {}\nlifecycle: {protect: true}\n",
            id="a boolean is lower case",
        ),
        pytest.param(
            ROLE + "spec:\n  description: one\n    two\n",
            ROLE + "spec:\n  description: one two\n",
            id="a text over several lines is put on one",
        ),
        pytest.param(ROLE.replace("\n", "\r\n") + "spec: {}", ROLE + "spec: {}\n", id="lines end with LF"),
        pytest.param(ROLE + "spec: {}   \n\n\n", ROLE + "spec: {}\n", id="the last line ends the file"),
        pytest.param(
            f"---\n{ROLE}spec: {{}}\n...\n---\n# c\n\n{GROUP}spec: {{name: G}}\n",
            f"{ROLE}spec: {{}}\n---\n# c\n\n{GROUP}spec: {{name: G}}\n",
            id="one line parts documents, and none opens the first",
        ),
    ],
)
def test_the_canonical_form_is_the_same_whoever_wrote_it(written: str, canonical: str) -> None:
    """Order, indentation, quotes, spaces and line ends are the same whoever wrote the manifest."""
    assert formatted(written) == canonical


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("'plain'", "plain"),
        ('"plain"', "plain"),
        ("'https://a.example/b'", "https://a.example/b"),
        ("'it''s'", "it's"),
        ("'a: b'", '"a: b"'),
        ("'a #b'", '"a #b"'),
        ("''", '""'),
        ("'5'", '"5"'),
        ("'1.5'", '"1.5"'),
        ("'true'", '"true"'),
        ("'null'", '"null"'),
        ("'yes'", '"yes"'),
        ("no", '"no"'),
        ("'12:30'", '"12:30"'),
        ("2026-01-31", '"2026-01-31"'),
        ("1_000", '"1_000"'),
        ('"say \\"x\\": y"', "'say \"x\": y'"),
        ('"a\\nb"', '"a\\nb"'),
        ('"\\e"', '"\\e"'),
    ],
)
def test_quotes_are_where_a_reader_of_yaml_needs_them(written: str, canonical: str) -> None:
    """A text that YAML 1.1 or 1.2 would take for something else is quoted, and no other."""
    assert (
        formatted(f"{ROLE}spec:\n  description: {written}\n") == f"{ROLE}spec:\n  description: {canonical}\n"
    )


@pytest.mark.parametrize("style", ["|", "|-", "|+", ">", ">-", ">+", "|2"])
def test_a_block_scalar_stays_as_it_is(style: str) -> None:
    """A policy's text keeps its lines, its spaces at their ends, and what looks like a comment of YAML."""
    block = "    permit (principal, action, resource)   \n\n    # not YAML's\n    when { true };\n"
    if style == "|2":
        block = block.replace("    ", "      ")
    text = f"{POLICY}spec:\n  description: d\n  cedar: {style} # Cedar\n{block}"
    if style.endswith("+"):
        text += "\n"

    assert values(formatted(text)) == values(text)
    assert block in formatted(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{GROUP}spec: {{name: G, # c\n  members: []}}\n", "a comment cannot be kept"),
        (f"{GROUP}spec:\n  name:\tG\n", "write spaces"),
        (f"%YAML 1.2\n---\n{ROLE}spec: {{}}\n", "remove that line"),
    ],
)
def test_what_would_lose_something_is_not_formatted(text: str, reason: str) -> None:
    """A comment within brackets over several lines has no place in a block."""
    with pytest.raises(FormattingImpossible, match=reason):
        formatted(text)


def test_an_alias_stays_behind_its_anchor() -> None:
    """Members that refer to one another are not moved past each other."""
    text = f"{HEAD}kind: Role\nmetadata: {{zone: acme, name: &a r}}\nspec:\n  identifier: *a\n"

    assert formatted(text) == text


def test_members_that_would_come_before_their_anchor_keep_their_order() -> None:
    """The rest of the document is formatted all the same."""
    text = f"{GROUP}spec:\n    members: [&a a@x.example]\n    name: *a\n"

    assert formatted(text) == f"{GROUP}spec:\n  members: [&a a@x.example]\n  name: *a\n"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_examples_are_formatted(file: Path) -> None:
    """What newcomers copy is in canonical form."""
    text = file.read_text(encoding="utf-8")

    assert formatted(text) == text


def _dumper(style: str | None, *, indented: bool) -> type[yaml.SafeDumper]:
    """Writes strings in one style, and lists at the column of their member or deeper."""

    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
            return super().increase_indent(flow, indentless and not indented)

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    )
    return Dumper


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Valid manifests as different people write them, with comments above and behind values."""
    documents = [_document(each) for each in draw(configurations())]
    text: str = yaml.dump_all(
        [dict(draw(st.permutations(list(each.items())))) for each in documents],
        Dumper=_dumper(draw(st.sampled_from([None, "'", '"', "|"])), indented=draw(st.booleans())),
        default_flow_style=draw(st.sampled_from([False, None])),
        indent=draw(st.sampled_from([2, 4, 7])),
        width=10_000,
        sort_keys=draw(st.booleans()),
        explicit_start=draw(st.booleans()),
    )
    return _commented(draw, text)


def _document(manifest: Manifest) -> dict[str, Any]:
    zone = {"zone": manifest.zone} if manifest.zone else {}
    document = {
        "apiVersion": "zonewright/v1",
        "kind": manifest.kind.name,
        "metadata": {"name": manifest.name, **zone},
        "spec": dict(manifest.spec),
    }
    return document | ({"lifecycle": dict(manifest.lifecycle)} if manifest.lifecycle else {})


def _commented(draw: st.DrawFn, text: str) -> str:
    """The text with comments and empty lines where YAML admits them."""
    lines, found = split_yaml_lines(text), list[str]()
    chosen = draw(st.lists(st.integers(0, 3), min_size=len(lines.texts), max_size=len(lines.texts)))
    for number, (line, what) in enumerate(zip(lines.texts, chosen, strict=True)):
        ends = number + 1 not in lines.inside and number not in lines.inside
        if number not in lines.inside and what == 1:
            found.append(f"{' ' * lines.indent(number)}# above {number}")
        elif number not in lines.inside and what == 2 and number:
            found.append("")
        found.append(f"{line}  # behind {number}" if ends and line and what == 3 else line)
    return "\n".join(found)


@settings(deadline=None, max_examples=40)
@given(texts())
def test_formatting_never_changes_what_manifests_say(text: str) -> None:
    """The same values before and after, read as a plan reads them."""
    assert values(formatted(text)) == values(text)


@settings(deadline=None, max_examples=40)
@given(texts())
def test_formatting_keeps_every_comment(text: str) -> None:
    """No comment is lost, and none is doubled."""
    assert Counter(split_yaml_lines(formatted(text)).comment_texts()) == Counter(
        split_yaml_lines(text).comment_texts()
    )


@settings(deadline=None, max_examples=40)
@given(texts())
def test_formatting_twice_is_formatting_once(text: str) -> None:
    """What is formatted is left as it is."""
    once = formatted(text)

    assert formatted(once) == once


def test_generated_manifests_are_formatted_alike(kinds: Kinds) -> None:
    """Whoever writes the same without comments gets the same file."""
    value = {
        "kind": "Group",
        "spec": {"members": ["a@x.example"], "name": "G"},
        "apiVersion": "zonewright/v1",
    }
    value["metadata"] = {"name": "g", "zone": "acme"}
    written = {
        format_manifests(
            yaml.dump(value, default_flow_style=False, default_style=style, indent=indent), kinds
        )
        for style in (None, '"', "'")
        for indent in (2, 4)
    }

    assert len(written) == 1
