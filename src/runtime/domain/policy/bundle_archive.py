"""Policy bundle archives (tar, gzip): parsed strictly, written reproducibly.

Nothing is ever extracted: members are names and bytes in memory. What two readers of tar could take for two
different things is refused: links, nested paths, names or sizes from extension headers, a second archive
behind the first.

Spec: service interface, "Policy bundle archive" and rule 3 of "Policy bundle"; POSIX ustar, pax headers.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runtime.domain.errors import BundleInvalid, TooLarge

MANIFEST = "manifest.json"
SCHEMA = "schema.cedarschema"
STEM_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
MAX_ARCHIVE_BYTES = 1024 * 1024  # as sent
MAX_INFLATED_BYTES = 4 * 1024 * 1024
MAX_POLICY_BYTES = 64 * 1024
MAX_MEMBERS = 256

_GZIP = 31  # zlib's word for a gzip wrapper around the largest window
_BLOCK = 512
_END = b"\0" * (2 * _BLOCK)
_POLICY = re.compile(rf"policies/({STEM_PATTERN})\.cedar")
_OCTAL = re.compile(rb"([0-7]+)[ \0]*")
_RECORD = re.compile(rb"([1-9][0-9]{0,6}) ")
_FILE, _EXTENDED = (b"0", b"\0"), (b"x", b"g")
# What an extension header may say of the next member without changing which bytes it is, or where.
_HARMLESS = re.compile(rb"(?:mtime|atime|ctime|uid|gid|uname|gname|comment|(?:LIBARCHIVE|SCHILY)\.[^=]*)=")


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of a bundle. `policies`: file name without `.cedar` -> text, not decoded yet."""

    manifest: bytes
    schema: bytes | None = None
    policies: Mapping[str, bytes] = field(default_factory=dict)


def read(data: bytes) -> Archive:
    """The members of an archive; only the manifest is sure to be there.

    Raises: BundleInvalid; TooLarge as soon as it inflates to more than `MAX_INFLATED_BYTES`.
    """
    found: dict[str, bytes] = {}
    for name, content in _members(_inflated(data)):
        if not found and name != MANIFEST:
            raise BundleInvalid(f"the first member must be `{MANIFEST}`")
        if name in found:
            raise BundleInvalid(f"`{name}` is in the archive twice")
        if len(found) == MAX_MEMBERS:
            raise BundleInvalid(f"the archive has more than {MAX_MEMBERS} members")
        found[name] = content
    if not found:
        raise BundleInvalid(f"the archive has no `{MANIFEST}`")
    policies = {match[1]: found[name] for name in found if (match := _POLICY.fullmatch(name))}
    return Archive(found[MANIFEST], found.get(SCHEMA), policies)


def write(archive: Archive) -> bytes:
    """The archive in bytes: manifest, schema, then policies by name; equal archives give equal bytes."""
    members = [(MANIFEST, archive.manifest)]
    if archive.schema is not None:
        members.append((SCHEMA, archive.schema))
    members += [(f"policies/{stem}.cedar", archive.policies[stem]) for stem in sorted(archive.policies)]
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)  # no name and no time in its header
    packed = [packer.compress(_header(name, content) + _padded(content)) for name, content in members]
    return b"".join([*packed, packer.compress(_END), packer.flush()])


def _inflated(data: bytes) -> bytes:
    """What the one gzip stream holds, never more of it than the limit."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise TooLarge(f"the archive has more than {MAX_ARCHIVE_BYTES} bytes")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        found = unpacker.decompress(data, MAX_INFLATED_BYTES + 1)
    except zlib.error:
        raise BundleInvalid("the archive is not gzip, or damaged") from None
    if len(found) > MAX_INFLATED_BYTES:
        raise TooLarge(f"the archive inflates to more than {MAX_INFLATED_BYTES} bytes")
    if not unpacker.eof:
        raise BundleInvalid("the archive ends early")
    if unpacker.unused_data:
        raise BundleInvalid("the archive has trailing data")
    return found


def _members(tar: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents in order, each name one of the known shapes."""
    place = 0
    while True:
        header = tar[place : place + _BLOCK]
        if len(header) < _BLOCK:
            raise BundleInvalid("the archive is truncated, or is not a tar archive")
        if not any(header):
            if tar.count(0, place) != len(tar) - place:
                raise BundleInvalid("the archive has data after its end marker")
            return
        size, kind = _checked(header)
        start = place + _BLOCK
        content = tar[start : start + size]
        if len(content) < size:
            raise BundleInvalid("the archive ends within a member")
        if kind in _EXTENDED:
            _check_extension(content)
        else:
            yield _name(header, kind, size), content
        place = start + size + -size % _BLOCK


def _checked(header: bytes) -> tuple[int, bytes]:
    """The size and the type of a member, from a header that is whole."""
    if header[257:262] != b"ustar" or any(header[345:500]):
        raise BundleInvalid("the archive is not a tar in the ustar format")
    told = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    if _number(header[148:156]) != told:
        raise BundleInvalid("a header of the archive is damaged")
    return _number(header[124:136]), header[156:157]


def _number(octal: bytes) -> int:
    match = _OCTAL.fullmatch(octal.lstrip(b" "))
    if match is None:
        raise BundleInvalid("a header of the archive has a malformed number")
    return int(match[1], 8)


def _name(header: bytes, kind: bytes, size: int) -> str:
    """The name of a member, which is a plain file with one of the known names."""
    raw, _, rest = header[:100].partition(b"\0")
    if any(rest):
        raise BundleInvalid("a member name in the archive has data after its NUL terminator")
    name = raw.decode("ascii", "backslashreplace")
    if kind not in _FILE or any(header[157:257]):
        raise BundleInvalid(f"`{_shown(name)}` is not a regular file")
    if name not in (MANIFEST, SCHEMA) and not _POLICY.fullmatch(name):
        raise BundleInvalid(f"`{_shown(name)}` is not a member that a bundle can have")
    if size > MAX_POLICY_BYTES:
        raise BundleInvalid(f"`{name}` has more than {MAX_POLICY_BYTES} bytes")
    return name


def _shown(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name[:100])


def _check_extension(content: bytes) -> None:
    """Refuse an extension header that says anything about which file the next member is."""
    place = 0
    while place < len(content):
        match = _RECORD.match(content, place)
        end = place + int(match[1]) if match else 0
        if not match or content[end - 1 : end] != b"\n" or end > len(content):
            raise BundleInvalid("an extension header of the archive is damaged")
        if not _HARMLESS.match(content, match.end(), end):
            raise BundleInvalid("an extension header of the archive must contain only times and owners")
        place = end


def _header(name: str, content: bytes) -> bytes:
    """A ustar header in which nothing depends on when, where and by whom it is written."""
    parts = (
        name.encode("ascii").ljust(100, b"\0"),
        b"0000644\0",
        b"0000000\0" * 2,  # owner and group
        b"%011o\0" % len(content),
        b"00000000000\0",  # time
        b" " * 8,  # stands for the checksum while that is made
        b"0",
        b"\0" * 100,
        b"ustar\00000",
    )
    header = b"".join(parts).ljust(_BLOCK, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % _BLOCK)
