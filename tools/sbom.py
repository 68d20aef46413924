"""The bill of materials (SBOM) of a wheel, in CycloneDX: what is installed with it, as the lock pins it."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from uuid import UUID, uuid5
from zipfile import ZipFile

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_NAMESPACE = UUID(
    "9e0f7a3c-5a0e-4a1e-9d0b-5a1c5f0c8d11"
)  # an arbitrary constant: serial numbers are of names in it
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A line of a lock.

    Attributes:
        hashes: SHA-256 of each file that may be installed, in hex.
    """

    name: str
    version: str
    hashes: tuple[str, ...]


def pins(lock: str) -> Iterator[Pin]:
    """What a lock with hashes pins, whatever the platform. Raises ValueError for a line that pins nothing."""
    for entry in lock.replace("\\\n", " ").splitlines():
        if not (line := entry.split("#")[0].strip()):
            continue
        pinned, hashes = _PINNED.match(line), tuple(sorted(_HASH.findall(line)))
        if pinned is None or not hashes:
            raise ValueError(f"this line of the lock pins no version with its hashes: `{line[:80]}`")
        yield Pin(canonicalize_name(pinned["name"]), pinned["version"], hashes)


def bill_of_materials(wheel: Path, lock: str, *, at: datetime) -> str:
    """The document, as JSON: the same wheel, lock and time give the same text.

    The wheel depends on what its metadata requires. What that requires in turn is listed, too, but a
    lock does not say who asked for it.

    Args:
        lock: requirements with hashes of everything that is installed with the wheel.
    Spec: CycloneDX 1.6.
    """
    metadata = _metadata(wheel)
    subject = _subject(wheel, metadata)
    found = {pin.name: _component(pin) for pin in pins(lock)}
    bom = Bom(
        components=found.values(),
        metadata=BomMetaData(component=subject, timestamp=at.astimezone(UTC)),
        serial_number=uuid5(
            _NAMESPACE, f"{wheel.name} {_digest(wheel)} {hashlib.sha256(lock.encode()).hexdigest()}"
        ),
    )
    required = {canonicalize_name(Requirement(each).name) for each in metadata.get("requires-dist", ())}
    bom.register_dependency(subject, [found[name] for name in sorted(required & found.keys())])
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"


def _metadata(wheel: Path) -> Mapping[str, list[str]]:
    """Core metadata, the names of its fields in lower case."""
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = HeaderParser().parsestr(archive.read(name).decode())
    return {name.lower(): told.get_all(name, []) for name in told}


def _subject(wheel: Path, metadata: Mapping[str, list[str]]) -> Component:
    (name,), (version,) = metadata["name"], metadata["version"]
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        description=metadata["summary"][0],
        bom_ref=f"{name}@{version}",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[LicenseFactory().make_from_string(each) for each in metadata["license-expression"]],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=_digest(wheel))],
    )


def _component(pin: Pin) -> Component:
    # A lock admits several files of a version, one for each platform: which is installed is not known here,
    # so none of the hashes is the component's.
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{pin.name}@{pin.version}",
        purl=PackageURL("pypi", name=pin.name, version=pin.version),
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
