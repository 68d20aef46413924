"""The archive of a policy bundle: read strictly, in bounded memory, without touching the disk."""

import builtins
import gzip
import io
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.domain.errors import BundleInvalid, TooLarge
from runtime.domain.policy.bundle_archive import (
    MAX_ARCHIVE_BYTES,
    MAX_INFLATED_BYTES,
    MAX_POLICY_BYTES,
    Archive,
    read,
    write,
)

Member = tuple[tarfile.TarInfo, bytes]
GOOD = Archive(b"{}", b"entity User;", {"calendar": b"permit (principal, action, resource);"})


def member(name: str, content: bytes = b"", **changes: Any) -> Member:
    """A member of an archive as somebody may send it."""
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for attribute, value in changes.items():
        setattr(made, attribute, value)
    return made, content


MANIFEST = member("manifest.json", b"{}")
POLICY = member("policies/calendar.cedar", GOOD.policies["calendar"])


def tar(*members: Member, form: int = tarfile.USTAR_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for told, content in members:
            archive.addfile(told, io.BytesIO(content))
    return made.getvalue()


def packed(*members: Member, form: int = tarfile.USTAR_FORMAT) -> bytes:
    return gzip.compress(tar(*members, form=form))


def of_zeros(megabytes: int) -> bytes:
    """That many megabytes of zeros in gzip, made without compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(b"\0") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * megabytes


def altered(at: int, value: bytes) -> bytes:
    """A good archive with a few bytes of its first header changed, the checksum made right again."""
    raw = bytearray(tar(MANIFEST, POLICY))
    raw[at : at + len(value)] = value
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return gzip.compress(bytes(raw))


def link(name: str, kind: bytes) -> Member:
    return member(name, type=kind, linkname="manifest.json")


ATTACKS: dict[str, Callable[[], bytes]] = {
    "path traversal": lambda: packed(MANIFEST, member("policies/../../x.cedar")),
    "absolute path": lambda: packed(MANIFEST, member("/etc/x.cedar")),
    "dot path": lambda: packed(MANIFEST, member("./policies/x.cedar")),
    "nested path": lambda: packed(MANIFEST, member("policies/a/x.cedar")),
    "hidden file": lambda: packed(MANIFEST, member("policies/.cedar")),
    "another file": lambda: packed(MANIFEST, member("policies/x.txt")),
    "newline in a name": lambda: packed(MANIFEST, member("policies/x.cedar\n")),
    "another alphabet": lambda: packed(MANIFEST, member("policies/х.cedar"), form=tarfile.GNU_FORMAT),
    "long name": lambda: packed(MANIFEST, member(f"policies/{'x' * 81}.cedar")),
    "GNU long name": lambda: packed(MANIFEST, member(f"policies/{'x' * 200}"), form=tarfile.GNU_FORMAT),
    "name by extension": lambda: packed(MANIFEST, member("policies/é.cedar"), form=tarfile.PAX_FORMAT),
    "size by extension": lambda: packed(
        MANIFEST, member("policies/x.cedar", pax_headers={"size": "9999999"}), form=tarfile.PAX_FORMAT
    ),
    "sparse by extension": lambda: packed(
        MANIFEST,
        member("policies/x.cedar", pax_headers={"GNU.sparse.major": "1"}),
        form=tarfile.PAX_FORMAT,
    ),
    "damaged extension": lambda: packed(MANIFEST, member("x", b"99 mtime=1\n", type=tarfile.XHDTYPE), POLICY),
    "symlink": lambda: packed(MANIFEST, link("policies/x.cedar", tarfile.SYMTYPE)),
    "hard link": lambda: packed(MANIFEST, link("policies/x.cedar", tarfile.LNKTYPE)),
    "device": lambda: packed(MANIFEST, member("policies/x.cedar", type=tarfile.CHRTYPE)),
    "pipe": lambda: packed(MANIFEST, member("policies/x.cedar", type=tarfile.FIFOTYPE)),
    "directory": lambda: packed(MANIFEST, member("policies/x.cedar", type=tarfile.DIRTYPE)),
    "sparse file": lambda: packed(MANIFEST, member("policies/x.cedar", type=tarfile.GNUTYPE_SPARSE)),
    "two manifests": lambda: packed(MANIFEST, MANIFEST),
    "duplicate member": lambda: packed(MANIFEST, POLICY, POLICY),
    "manifest not first": lambda: packed(POLICY, MANIFEST),
    "no manifest": lambda: packed(POLICY),
    "nothing": lambda: packed(),
    "no bytes": lambda: b"",
    "no gzip": lambda: tar(MANIFEST),
    "no tar": lambda: gzip.compress(b"x" * 2000),
    "gzip in gzip": lambda: gzip.compress(packed(MANIFEST, POLICY)),
    "gzip cut off": lambda: packed(MANIFEST, POLICY)[:-9],
    "gzip damaged": lambda: packed(MANIFEST, POLICY)[:-6] + b"\1\2\3\4\5\6",
    "two gzips": lambda: packed(MANIFEST) + packed(MANIFEST),
    "something behind": lambda: packed(MANIFEST) + b"\0",
    "tar cut off": lambda: gzip.compress(tar(MANIFEST, POLICY)[:1600]),
    "tar without end": lambda: gzip.compress(tar(MANIFEST, POLICY)[:2048]),
    "a second tar": lambda: gzip.compress(tar(MANIFEST) + tar(MANIFEST, POLICY)),
    "wrong checksum": lambda: gzip.compress(tar(MANIFEST).replace(b"0000644", b"0000777", 1)),
    "no magic": lambda: altered(257, b"USTAR"),
    "prefix": lambda: altered(345, b"policies"),
    "binary size": lambda: altered(124, b"\x80" + bytes(10) + b"\x02"),
    "negative size": lambda: altered(124, b"-0000000001 "),
    "name behind its end": lambda: altered(60, b"x"),
    "too many members": lambda: packed(MANIFEST, *(member(f"policies/p{n}.cedar") for n in range(300))),
    "a large policy": lambda: packed(MANIFEST, member("policies/x.cedar", bytes(MAX_POLICY_BYTES + 1))),
}
LARGE: dict[str, Callable[[], bytes]] = {
    "ten gigabytes of zeros": lambda: of_zeros(10 << 10),
    "as many zeros as are read": lambda: of_zeros(10 << 10)[:MAX_ARCHIVE_BYTES],
    "a hundred thousand members": lambda: gzip.compress(
        tar(MANIFEST)[:1024] + tar(member("policies/x.cedar"))[:512] * 100_000, 1
    ),
    "just beyond": lambda: of_zeros((MAX_INFLATED_BYTES >> 20) + 1),
    "a large body": lambda: os.urandom(MAX_ARCHIVE_BYTES + 1),
}


def test_what_is_written_is_read() -> None:
    """The same members, and the same bytes each time; other readers of tar see them too."""
    data = write(GOOD)
    assert read(data) == GOOD
    assert write(Archive(GOOD.manifest, GOOD.schema, dict(reversed(GOOD.policies.items())))) == data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["manifest.json", "schema.cedarschema", "policies/calendar.cedar"]
        assert {(each.mtime, each.uid, each.mode) for each in archive} == {(0, 0, 0o644)}


STEMS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", fullmatch=True)


@settings(max_examples=50)
@given(st.binary(max_size=2000), st.dictionaries(STEMS, st.binary(max_size=2000), max_size=5))
def test_any_content_comes_back(manifest: bytes, policies: dict[str, bytes]) -> None:
    """Whatever stands in the files, and at every length around a block."""
    assert read(write(Archive(manifest, None, policies))) == Archive(manifest, None, policies)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_other_programs_are_read(form: int) -> None:
    """Times, owners and paddings of the usual programs do not matter."""
    told = member("policies/calendar.cedar", b"x", mtime=1234.5, uid=501, uname="ann", mode=0o600)
    assert read(packed(MANIFEST, told, form=form)).policies == {"calendar": b"x"}


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Opening a file, or making anything on the disk, fails."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("touched the disk")

    with monkeypatch.context() as patched:
        for owner, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "mkdir"), (os, "symlink")):
            patched.setattr(owner, name, refuse)
        yield


@pytest.mark.threat("28a", "28b", "28c", "28d", "28e", "28f", "28i", "28j", "28r")
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_archive_that_could_be_misread_is_refused(attack: str, no_disk: None) -> None:
    """Whatever two readers could take for two different things."""
    assert read(packed(MANIFEST, POLICY)).policies == GOOD.policies
    with pytest.raises(BundleInvalid):
        read(ATTACKS[attack]())


@pytest.mark.threat("28g", "28h", "28p", "28q", "28r")
@pytest.mark.parametrize("attack", LARGE)
def test_an_archive_that_grows_is_refused_before_it_has(attack: str, no_disk: None) -> None:
    """Long before 16 MB, and in less than 64 MB of memory."""
    data = LARGE[attack]()
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert MAX_INFLATED_BYTES < 16 << 20
