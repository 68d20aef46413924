"""Bodies of changesets: read one operation at a time as if they were read in one piece, and capped."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.keys.sealing import SecretHasher
from runtime.api.management import changeset_bodies
from runtime.api.management.changeset_bodies import (
    MAX_OPERATION_BYTES,
    MAX_OPERATION_VALUES,
    READERS,
    WRITERS,
    ChangesetSizeLimits,
    read_changeset,
)
from runtime.api.shared.json_bodies import MAX_BODY_BYTES, read_json
from runtime.contract.bodies import MAX_PROBLEMS, parse
from runtime.contract.changes import Changeset
from runtime.domain.errors import BadRequest, ManagementError, TooLarge, ValidationFailed
from runtime.services import time_slices
from runtime.services.management.changesets.changeset import PackedChangeset, packed
from runtime.services.management.changesets.idempotency import body_digest
from runtime.services.time_slices import TimeSlice

SMALL = ChangesetSizeLimits(2 * 1024 * 1024, 50, 2_000)
ENVELOPE = '"base_revision": 1, "owner": "acme", "plan_digest": "d"'
OPERATION = '{"op": "create", "kind": "Zone", "name": "a", "spec": {"name": "a"}}'


def body(*operations: str, envelope: str = ENVELOPE) -> bytes:
    """A body with these operations."""
    return f'{{{envelope}, "operations": [{",".join(operations)}]}}'.encode()


def read(text: bytes, cap: ChangesetSizeLimits = WRITERS) -> PackedChangeset:
    """The changeset in a body."""
    return asyncio.run(read_changeset(text, "application/json", cap))


def in_one_piece(text: bytes) -> PackedChangeset:
    """The same, read at once."""
    return packed(parse(Changeset, read_json(text, "application/json", limit=WRITERS.size)))


_TEXTS = st.text(st.sampled_from('ab"\\[]{},:\né '), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_OPERATIONS = st.fixed_dictionaries(
    {"op": st.just("create"), "kind": _TEXTS},
    optional={"name": st.text("ab {}", min_size=1, max_size=5), "spec": st.dictionaries(_TEXTS, _VALUES)},
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Changesets whose members stand in any order, in any layout, with what is no operation among them."""
    operations: Any = draw(st.lists(_OPERATIONS | _VALUES, max_size=4) | _VALUES)
    members = {"base_revision": 1, "owner": "a", "plan_digest": "d", "operations": operations}
    members |= draw(st.dictionaries(_TEXTS | st.just("source"), _VALUES, max_size=2))
    order = draw(st.permutations(list(members)))
    layout: dict[str, Any] = draw(
        st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    )
    return json.dumps({name: members[name] for name in order}, **layout).encode()


@given(documents())
def test_read_as_in_one_piece(text: bytes) -> None:
    """Where the operations stand, and what is in them, makes no difference: the same value, or a refusal."""
    try:
        expected = in_one_piece(text)
    except ManagementError:
        with pytest.raises(ManagementError):
            read(text)
    else:
        assert read(text) == expected


@given(documents(), st.data())
def test_broken_bodies_are_refused(text: bytes, data: st.DataObject) -> None:
    """A body that lacks a byte, or has one too many, is never taken for something else than it is."""
    place = data.draw(st.integers(0, len(text) - 1))
    broken = (
        text[:place] + data.draw(st.sampled_from([b"", b"[", b"}", b",", b'"', b"\\"])) + text[place + 1 :]
    )
    try:
        expected = in_one_piece(broken)
    except ManagementError:
        with pytest.raises(ManagementError):
            read(broken)
    else:
        assert read(broken) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (b"{", BadRequest, "not JSON"),
        (b"[]", ValidationFailed, "object"),
        (b"", BadRequest, "not JSON"),
        (body(OPERATION, "5"), ValidationFailed, "array of objects"),
        (body("5", OPERATION), ValidationFailed, "array of objects"),
        (body(OPERATION)[:-2] + b" 5]}", ValidationFailed, "array of objects"),
        (body(f"{OPERATION}{OPERATION}"), ValidationFailed, "array of objects"),
        (body(OPERATION)[:-2], BadRequest, "does not end"),
        (body(OPERATION) + b"}", BadRequest, "not JSON"),
        (body('{"op": "create", "op": "update", "kind": "Zone"}'), BadRequest, "operation 0"),
        (body(OPERATION, '{"op": nul}'), BadRequest, "operation 1"),
        (body(OPERATION, envelope=f'{ENVELOPE}, "operations": []'), BadRequest, "twice"),
        (body(OPERATION, envelope=f'{ENVELOPE}, "owner": "b"'), BadRequest, "twice"),
        (body(OPERATION, envelope=f'{ENVELOPE}, "more": 1'), ValidationFailed, "more"),
        (body(), ValidationFailed, "operations"),
        (b'{"operations": ' + b"[" * 70 + b"]" * 70 + b"}", BadRequest, "deeper than 64"),
        (body('{"a": ' + "[" * 62 + "]" * 62 + "}"), BadRequest, "deeper than 64"),
        (body("[]"), ValidationFailed, "operations[0]"),
        (body(OPERATION, '{"op": "create"}'), ValidationFailed, "operations[1].kind"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: bytes, error: type[ManagementError], message: str
) -> None:
    """What is wrong is told with its place, for bodies in one piece and for those that are cut up."""
    with pytest.raises(error) as refused:
        read(text)
    assert message in refused.value.detail or message in {one.field for one in refused.value.problems}


def test_an_unusual_name_is_read_too() -> None:
    """A name that is written with escapes is that name; such a body is read in one piece."""
    text = body(OPERATION).replace(b'"operations"', b'"operation\\u0073"')
    assert read(text) == in_one_piece(body(OPERATION))


@pytest.mark.threat("31r", "41i")
@pytest.mark.parametrize(
    ("fitting", "beyond"),
    [
        pytest.param([OPERATION] * 50, [OPERATION] * 51, id="operations"),
        pytest.param(
            [OPERATION[:-1] + ', "fields": ["' + '","'.join("a" * 1990) + '"]}'],
            [OPERATION[:-1] + ', "fields": ["' + '","'.join("a" * 2001) + '"]}'],
            id="values",
        ),
        pytest.param(
            [OPERATION[:-2] + ', "b": "' + "x" * (MAX_OPERATION_BYTES - 79) + '"}}'],
            [OPERATION[:-2] + ', "b": "' + "x" * (MAX_OPERATION_BYTES - 70) + '"}}'],
            id="bytes of one",
        ),
        pytest.param([" " * 1000, OPERATION], [" " * SMALL.size, OPERATION], id="bytes"),
        pytest.param(
            [OPERATION], [f'{{"a": [{",".join(["[]"] * 2001)}]}}', OPERATION], id="brackets, before the end"
        ),
    ],
)
def test_more_than_the_sender_may_have_is_a_413(fitting: list[str], beyond: list[str]) -> None:
    """More of anything than the sender may have is a 413, and nothing of it is parsed."""
    if fitting[0].isspace():
        fitting, beyond = [fitting[0] + fitting[1]], [beyond[0] + beyond[1]]
    assert read(body(*fitting), SMALL).operations
    with pytest.raises(TooLarge):
        read(body(*beyond), SMALL)


def test_caps_that_every_body_has() -> None:
    """One operation has as many values as one step has time for; what stands around them is small."""
    many = OPERATION[:-2] + f', "b": [{",".join("1" * MAX_OPERATION_VALUES)}]}}}}'
    with pytest.raises(TooLarge, match="operation 0 has more than"):
        read(body(many))
    with pytest.raises(TooLarge, match="the members other than"):
        read(body(OPERATION, envelope=f'{ENVELOPE}, "source": {{"ref": "{"x" * MAX_BODY_BYTES}"}}'))
    with pytest.raises(TooLarge, match="between two brackets"):
        read(body(OPERATION, envelope=f'{ENVELOPE}, "x": "{"x" * 3 * MAX_BODY_BYTES}"'))


def test_a_plan_of_ten_thousand_is_within_the_caps_of_readers() -> None:
    """Whoever may only read tries out whole configurations; whoever applies has room for more."""
    spec = {
        "name": "Service 1234",
        "description": "One of many",
        "consent": "implicit",
        "protocols": {"oauth2": {"redirect_uris": ["https://app-1234.acme.example/callback"]}},
        "dependencies": [{"local_id": "Resource/bench/resource-1234"}],
    }
    fields = ["name", "identifier", "description", "consent", "protocols.oauth2.redirect_uris"]
    operation = {
        "op": "create",
        "kind": "Application",
        "local_id": "Application/bench/application-1234",
        "zone": {"local_id": "Zone/bench"},
        "name": "application-1234",
        "spec": spec,
        "fields": fields,
    }
    text = body(*[json.dumps(operation)] * 10_000)
    assert len(read(text, READERS).operations) == 10_000
    assert READERS.size < WRITERS.size
    assert READERS.operations < WRITERS.operations


@pytest.mark.threat("41l", "31s")
@pytest.mark.parametrize(
    "operation",
    [
        "{}",
        "[]",
        '{"op": "create", "kind": "Nothing"}',
        '{"op": "create", "kind": "Zone", "spec": {"a": [' + ",".join(["{}"] * 14_000) + "]}}",
        '{"op": "create", "kind": "Zone", "fields": [' + ",".join(["1"] * 29_000) + "]}",
        '{"op": "create", "kind": "Zone", "spec": {"a": "' + "x" * 1_000_000 + '"}}',
    ],
    ids=["empty", "arrays", "kinds", "objects", "wrong", "texts"],
)
def test_nobody_waits_for_a_large_body(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large a body is and whatever is in it, other requests are served in between.

    Where whoever reads it gives up the event loop as often as it can, it has gone on by a bounded number of
    bytes between two turns, and has read one operation at most.
    """
    text = body(*[operation] * (WRITERS.size // (len(operation) + 2)))
    monkeypatch.setattr(time_slices, "_SLICE_SECONDS", 0.0)
    reached, read_operation, operations = 0, changeset_bodies._read, 0

    def walked(name: str) -> None:
        step = getattr(changeset_bodies._Split, name)

        def stepping(split: object, *places: int) -> None:
            nonlocal reached
            reached = places[-1]
            step(split, *places)

        monkeypatch.setattr(changeset_bodies._Split, name, stepping)

    def counted(*arguments: Any) -> object:
        nonlocal operations
        operations += 1
        return read_operation(*arguments)

    for name in ("whole", "opening", "closing"):
        walked(name)
    monkeypatch.setattr(changeset_bodies, "_read", counted)

    async def reading() -> None:
        with suppress(ManagementError):
            await read_changeset(text, None, WRITERS)

    async def turns() -> tuple[int, int]:
        furthest, most = 0, 0
        task = asyncio.create_task(reading())
        while not task.done():
            before = reached, operations
            await asyncio.sleep(0)
            furthest, most = max(furthest, reached - before[0]), max(most, operations - before[1])
        return furthest, most

    furthest, most = asyncio.run(turns())
    assert furthest <= changeset_bodies._STEP_BYTES + MAX_OPERATION_BYTES
    assert most <= 1


def test_the_first_hundred_problems_are_listed() -> None:
    """The error lists a hundred problems and says so; operations after these are not looked at."""
    with pytest.raises(ValidationFailed) as refused:
        read(body(*[OPERATION] * 3 + ['{"op": 1}']))
    assert [one.field for one in refused.value.problems][-2:] == ["operations[3].op", "operations[3].kind"]
    with pytest.raises(ValidationFailed, match="only the first 100 are listed") as refused:
        read(body(*["{}"] * 1_000, "{nothing}"))
    assert len(refused.value.problems) == MAX_PROBLEMS


def test_the_digest_is_that_of_the_whole() -> None:
    """It is made piece by piece, and what was kept before that still fits."""
    hasher = SecretHasher(b"x" * 32)
    source = {"repository": 'of "operations": [', "ref": "é"}
    for operations in ([OPERATION], [OPERATION, OPERATION.replace('"a"', '"é"')]):
        text = body(*operations, envelope=f'{ENVELOPE}, "source": {json.dumps(source)}')
        changeset = parse(Changeset, read_json(text, "application/json"))
        told = changeset.model_dump(mode="json")
        # `source` counts only where it is said.
        assert {operation.pop("source") for operation in told["operations"]} == {None}
        whole = json.dumps(told, sort_keys=True)
        assert asyncio.run(body_digest(hasher, read(text))) == hasher.hash(whole).hex()


@given(documents())
def test_operations_seen_in_one_go_are_found_and_counted_as_those_walked_through(text: bytes) -> None:
    """What is nested too deep to be seen in one go has the same limits."""
    found = _found(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changeset_bodies, "_OPERATION", re.compile(rb"(?!)"))

        assert _found(text) == found


def _found(text: bytes) -> tuple[Any, ...]:
    try:
        split = asyncio.run(changeset_bodies._split(text, SMALL, TimeSlice()))
    except ManagementError as refused:
        return type(refused), str(refused)
    return split.begin, split.end, split.operations, split.values
