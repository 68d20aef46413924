"""Parses changeset request bodies, which may be large: size checked first, one operation at a time.

Each operation is read as the body of a single call is, with the same limit. Between two of them other
requests are served, and a body that is not acceptable costs no more than what it takes to see that.
"""

import re
from dataclasses import dataclass, field

from runtime.api.shared.json_bodies import MAX_BODY_BYTES, MAX_CHANGESET_BYTES, MAX_DEPTH, read_json
from runtime.contract.bodies import MAX_PROBLEMS, parse
from runtime.contract.changes import Changeset, ChangesetHeader, Operation
from runtime.domain.errors import BadRequest, ManagementError, Problem, TooLarge, ValidationFailed
from runtime.services.management.changesets.changeset import PackedChangeset, Packer, packed
from runtime.services.management.changesets.problems import invalid_changeset
from runtime.services.time_slices import TimeSlice


@dataclass(frozen=True)
class ChangesetSizeLimits:
    """How much one changeset may be.

    Attributes:
        size: bytes of its body.
        operations: how many.
        values: JSON values in all operations together, which is what they take in memory; in a shorter
            body, no more of them than one for each eight bytes.
    """

    size: int
    operations: int
    values: int


WRITERS = ChangesetSizeLimits(MAX_CHANGESET_BYTES, 200_000, 6_000_000)
# Whoever may only read has no more than a plan to try out: one that creates 100,000 objects, say.
READERS = ChangesetSizeLimits(64 * 1024 * 1024, 150_000, 4_000_000)
_VALUES, _BYTES_A_VALUE = 100_000, 8
MAX_OPERATION_BYTES = MAX_BODY_BYTES
# Checking one operation is one step: whatever else the process does waits for it.
MAX_OPERATION_VALUES = 30_000

# Up to the next bracket that is in no string. One that is not closed matches nothing.
_TO_BRACKET = re.compile(rb'(?:[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}])', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = rb'[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+"'


def _nested(levels: int) -> bytes:
    """What brackets hold that have no more levels of brackets in them."""
    inner = _PLAIN
    for _ in range(levels):
        inner = rb"%b|[\[{](?:%b)*+[\]}]" % (_PLAIN, inner)
    return inner


# A whole operation, as nearly all are: seen in one go, where one that is nested deeper is walked through.
_OPERATION = re.compile(rb"[ \t\r\n,]*+(\{(?:%b)*+\})" % _nested(4), re.DOTALL)
_NAME = re.compile(rb'(?<!\\)"operations"[ \t\r\n]*:[ \t\r\n]*\Z')
_NAME_BYTES = 64
_ARRAY = ord("[")
_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_BLANK = re.compile(rb"[ \t\r\n]*")
# So far is looked for brackets without a rest.
_STEP_BYTES, _STEP_BRACKETS = 2 * MAX_OPERATION_BYTES, 500


async def read_changeset(body: bytes, content_type: str | None, cap: ChangesetSizeLimits) -> PackedChangeset:
    """The changeset in a request body.

    Raises: TooLarge, BadRequest for what is not JSON, ValidationFailed with up to a hundred problems.
    """
    if len(body) > cap.size:
        raise TooLarge(f"the body has more than {cap.size} bytes")
    time_slice = TimeSlice()
    split = await _split(body, cap, time_slice)
    rest = body[: split.begin] + body[split.end :]
    if len(rest) > MAX_BODY_BYTES:
        raise TooLarge(f"the members other than `operations` have more than {MAX_BODY_BYTES} bytes")
    raw = read_json(rest, content_type)
    if not split.operations or not isinstance(raw, dict):
        return packed(parse(Changeset, raw))
    envelope = parse(ChangesetHeader, {name: value for name, value in raw.items() if name != "operations"})
    packer = Packer()
    operations, problems = [], []
    for index, (begin, end) in enumerate(split.operations):
        await time_slice.yield_if_due()
        try:
            operations.append(packer.pack(parse(Operation, _read(body[begin:end], index, content_type))))
        except ValidationFailed as refused:
            problems += _placed(refused, index)
            if len(problems) >= MAX_PROBLEMS:
                break
    if problems:
        raise invalid_changeset(problems)
    return PackedChangeset.of(envelope, operations)


@dataclass
class _Split:
    """Where the operations are in a body, found by brackets alone.

    Attributes:
        begin, end: what is inside their array; both 0 as long as it is not found.
        operations: where each begins and ends.
        depth: how many brackets are open.
        values: how many there have been in them: brackets that open, and commas.
    """

    body: bytes
    cap: ChangesetSizeLimits
    begin: int = 0
    end: int = 0
    operations: list[tuple[int, int]] = field(default_factory=list)
    depth: int = 0
    values: int = 0
    _opened: int = 0
    _before: int = 0

    def opening(self, before: int, at: int) -> None:
        """Take a bracket that opens at *at*, after the one at *before*. Raises TooLarge, BadRequest."""
        self.depth += 1
        self.values += 1
        if self.depth > MAX_DEPTH:
            raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels")
        self._require_few()
        if self.depth == 2 and not self.begin and self.body[at] == _ARRAY:
            named = _NAME.search(self.body, max(before, at - _NAME_BYTES), at)
            self.begin = at + 1 if named else 0
        elif self._within and self.depth == 3:
            self._opened, self._before = at, self.values
        elif self._within and at - self._opened > MAX_OPERATION_BYTES:
            raise _too_large(len(self.operations))

    def whole(self, begin: int, end: int) -> None:
        """Take an operation that stands there, with the brackets in it. Raises as `closing`."""
        self._before = self.values + 1  # its own bracket
        bare = _without_strings(self.body[begin:end])
        self.values += bare.count(b"{") + bare.count(b"[")
        self._add(begin, end, bare)

    def closing(self, at: int) -> None:
        """Take a bracket that closes at *at*. Raises TooLarge, ValidationFailed."""
        self.depth -= 1
        if self._within and self.depth == 2:
            self._add(self._opened, at + 1, _without_strings(self.body[self._opened : at + 1]))
        elif self._within and self.depth == 1:
            self.end = at

    @property
    def expecting(self) -> bool:
        """Tell whether an operation may begin here."""
        return self.depth == 2 and self._within

    @property
    def _within(self) -> bool:
        return bool(self.begin and not self.end)

    def _add(self, begin: int, end: int, bare: bytes) -> None:
        index = len(self.operations)
        if index == self.cap.operations:
            raise TooLarge(f"the changeset has more than {index} operations; send several changesets")
        if end - begin > MAX_OPERATION_BYTES:
            raise _too_large(index)
        last = self.operations[-1][1] if index else self.begin
        if not (_COMMA if index else _BLANK).fullmatch(self.body, last, begin):
            raise _not_objects()
        self.values += bare.count(b",")
        if self.values - self._before > MAX_OPERATION_VALUES:
            raise TooLarge(f"operation {index} has more than {MAX_OPERATION_VALUES} values")
        self._require_few()
        self.operations.append((begin, end))

    def _require_few(self) -> None:
        most = min(self.cap.values, _VALUES + len(self.body) // _BYTES_A_VALUE)
        if self.values > most:
            raise TooLarge(f"the operations have more than {most} values; send several changesets")


async def _split(body: bytes, cap: ChangesetSizeLimits, time_slice: TimeSlice) -> _Split:
    """Find the operations. Raises TooLarge, BadRequest, ValidationFailed."""
    found, at, rested = _Split(body, cap), 0, 0
    while True:
        if found.expecting and (operation := _OPERATION.match(body, at, at + MAX_OPERATION_BYTES)):
            found.whole(*operation.span(1))
            at = operation.end()
            await time_slice.yield_if_due()
            continue
        if (match := _TO_BRACKET.match(body, at, at + _STEP_BYTES)) is None:
            break
        before, at = at, match.end()
        if match[1] in b"[{":
            found.opening(before, at - 1)
        else:
            found.closing(at - 1)
        if found.depth <= 0:
            break
        if at - rested > _STEP_BYTES or found.values % _STEP_BRACKETS == 0:
            await time_slice.yield_if_due()
            rested = at
    if not match and at + _STEP_BYTES < len(body):
        raise TooLarge(f"there are more than {_STEP_BYTES} bytes between two brackets")
    if found.begin and not found.end:
        raise BadRequest("the body is not JSON: the array of `operations` does not end")
    if found.operations and not _BLANK.fullmatch(body, found.operations[-1][1], found.end):
        raise _not_objects()
    return found if found.operations else _Split(body, cap)


def _without_strings(text: bytes) -> bytes:
    """What stands outside the strings of a piece of JSON."""
    if b"\\" in text:
        return _STRING.sub(b"", text)
    return b"".join(text.split(b'"')[::2])


def _too_large(index: int) -> TooLarge:
    return TooLarge(f"operation {index} has more than {MAX_OPERATION_BYTES} bytes")


def _not_objects() -> ValidationFailed:
    return ValidationFailed.of("operations", "must be a JSON array of objects")


def _read(text: bytes, index: int, content_type: str | None) -> object:
    """The JSON value of an operation."""
    try:
        return read_json(text, content_type)
    except ManagementError as refused:
        raise type(refused)(f"operation {index}: {refused.detail}") from None


def _placed(refused: ValidationFailed, index: int) -> list[Problem]:
    """The problems of one operation's form, with its place."""
    at = f"operations[{index}]"
    if not refused.problems:
        return [Problem(refused.code, refused.detail, at)]
    return [
        Problem(one.code, one.message, f"{at}.{one.field}" if one.field else at) for one in refused.problems
    ]
