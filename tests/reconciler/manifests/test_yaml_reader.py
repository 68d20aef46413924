"""Reading YAML: the values of the core schema, and everything that is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifests.yaml_reader import MAX_NODES, InvalidYaml, read_documents


def value(text: str) -> object:
    """The value of a file's only document."""
    (document,) = read_documents(text)
    return document.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("-", [None]),
        ("+", "+"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    """YAML 1.2: `no` is a string, dates are strings, quoted scalars are strings."""
    assert value(f"a: {text}" if text != "-" else "a:\n-") == {"a": expected}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a: 1\na: 2", "the key `a` appears twice", 1),
        ("a: &x {b: 1}\nc: {<<: *x}", "merge keys", 1),
        ("a: !!python/object:os.system x", "tag", 0),
        ("a: !custom {b: 1}", "tag", 0),
        ("a: *nowhere", "there is no anchor `&nowhere`", 0),
        ("a: &x [*x]", "there is no anchor `&x`", 0),
        ("? [1]\n: 2", "a key must be a string", 0),
        ("a: .inf", "not a number that JSON can hold", 0),
        ("a: 123456789012345678901234567890", "too large", 0),
        ("a: 9007199254740993", "too large", 0),
        ("a: [1\nb: 2", "the `[` that opens here is never closed", 0),
        ("a: \x07", "control character U+0007", 0),
        ("[" * 100 + "]" * 100, "nested deeper", 0),
        ("[" * 100_000, "nested deeper", 0),
    ],
)
def test_refuses_what_would_surprise(text: str, message: str, line: int) -> None:
    """Everything refused says what and where."""
    with pytest.raises(InvalidYaml) as caught:
        read_documents(text)

    assert message in caught.value.message
    assert caught.value.span.line == line


def test_aliases_cannot_expand_without_end() -> None:
    """A few lines cannot become gigabytes."""
    lines = ["a0: &a0 [" + "x, " * 9 + "x]"]
    lines += [f"a{n}: &a{n} [" + f"*a{n - 1}, " * 9 + f"*a{n - 1}]" for n in range(1, 10)]

    with pytest.raises(InvalidYaml, match=f"{MAX_NODES:,}"):
        read_documents("\n".join(lines))


def test_plain_anchors_are_followed() -> None:
    """An alias stands for the value of its anchor."""
    assert value("a: &x {b: [1]}\nc: *x") == {"a": {"b": [1]}, "c": {"b": [1]}}


def test_a_file_has_several_documents() -> None:
    """Each knows the line its content begins on; empty ones are left out."""
    documents = read_documents("# first\na: 1\n---\n---\n# second\nb: 2\n")

    assert [(each.line, each.value) for each in documents] == [(2, {"a": 1}), (6, {"b": 2})]


def test_places_say_where_members_stand() -> None:
    """Keys and values have their own spans, in block and in flow style."""
    (document,) = read_documents("a:\n  b: [1, {c: x}]\n", places=True)

    place = document.places["a", "b", 1, "c"]
    assert place.key is not None
    assert (place.key.line, place.key.column, place.value.column) == (1, 10, 13)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda below: st.lists(below) | st.dictionaries(TEXT, below),
    max_leaves=20,
)


@given(st.dictionaries(TEXT, JSON, min_size=1))
def test_every_json_document_is_read_as_json_reads_it(content: dict[str, object]) -> None:
    """JSON is YAML: what a program writes as JSON means the same here."""
    import json

    assert value(json.dumps(content, ensure_ascii=False)) == content


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a problem with a place comes out of bad input."""
    with contextlib.suppress(InvalidYaml):
        read_documents(text, places=True)
