"""Validates an uploaded policy bundle: its manifest and each policy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contract.bodies import parse
from runtime.contract.bundles import BundleManifest, BundlePolicyRef
from runtime.domain import strict_json
from runtime.domain.errors import BundleInvalid, Problem, ValidationFailed
from runtime.domain.policy import bundle_archive, schema
from runtime.domain.policy.bundle_archive import MANIFEST
from runtime.services.management.policies import policy_texts
from runtime.services.management.policies.policy_texts import CheckedPolicyText

MAX_TEXT_BYTES = 128 * 1024  # of all policies of a user: every worker keeps them parsed


@dataclass(frozen=True, slots=True)
class WantedPolicy:
    """A policy of the bundle, by its id or, when it is new, by the name of its file."""

    public_id: str | None
    new_policy: str | None
    text: CheckedPolicyText


@dataclass(frozen=True, slots=True)
class UploadedBundle:
    """What the bundle of a user is to be."""

    schema_version: str
    policies: tuple[WantedPolicy, ...]


def read(data: bytes, *, user_id: str) -> UploadedBundle:
    """What an archive asks for. It is parsed and checked whole, which may take a while: keep it off the loop.

    The manifest's list decides: a file without an entry is dropped, the schema and everything advisory is not
    looked at.

    Raises: BundleInvalid with one problem for each thing that is wrong; TooLarge.
    Spec: service interface, "Policy bundle", rule 3.
    """
    archive = bundle_archive.read(data)
    manifest = _manifest(archive.manifest)
    if manifest.target_id not in (None, user_id):
        raise _invalid([("target_id", "must be the user of the access token")])
    version = manifest.schema_ref.version
    if version not in schema.VERSIONS:
        raise _invalid([("schema.version", f"unknown schema version `{version}`")])
    _refuse_doubles(manifest.policies)
    missing = [entry.stem for entry in manifest.policies if entry.stem not in archive.policies]
    if missing:
        message = "is listed in the manifest but missing from the archive"
        raise _invalid((f"policies/{stem}.cedar", message) for stem in missing)
    _require_little(len(archive.policies[entry.stem]) for entry in manifest.policies)
    texts = _texts(manifest.policies, archive.policies, version)
    _require_little(len(text.raw.encode()) for _, text in texts)  # laid out, as they are kept
    return UploadedBundle(
        version, tuple(WantedPolicy(entry.public_id, entry.new_policy, text) for entry, text in texts)
    )


def _require_little(sizes: Iterable[int]) -> None:
    if sum(sizes) > MAX_TEXT_BYTES:
        raise BundleInvalid(f"the policies have more than {MAX_TEXT_BYTES} bytes together")


def _manifest(raw: bytes) -> BundleManifest:
    try:
        value = strict_json.parse(raw.decode("utf-8"))
    except ValueError:
        raise BundleInvalid(f"`{MANIFEST}` is not JSON in UTF-8 with distinct members") from None
    try:
        return parse(BundleManifest, value)
    except ValidationFailed as invalid:
        raise BundleInvalid(f"`{MANIFEST}`: {invalid.detail}", problems=invalid.problems) from None


def _refuse_doubles(entries: list[BundlePolicyRef]) -> None:
    """Raise BundleInvalid for two entries with one file."""
    seen: set[str] = set()
    doubles = []
    for position, entry in enumerate(entries):
        if entry.stem in seen:
            doubles.append((f"policies[{position}]", f"`{entry.stem}` is in the manifest already"))
        seen.add(entry.stem)
    if doubles:
        raise _invalid(doubles)


def _texts(
    entries: list[BundlePolicyRef], files: Mapping[str, bytes], version: str
) -> list[tuple[BundlePolicyRef, CheckedPolicyText]]:
    """The entries with their texts, valid under the service's own schema of that version."""
    found, problems = [], []
    for entry in entries:
        name = f"policies/{entry.stem}.cedar"
        try:
            text = files[entry.stem].decode("utf-8")
            found.append((entry, policy_texts.read(cedar_raw=text, schema_version=version, field=name)))
        except UnicodeDecodeError:
            problems.append(Problem("bundle_invalid", "is not UTF-8", name))
        except ValidationFailed as invalid:
            problems += invalid.problems
    if problems:
        raise BundleInvalid(f"`{problems[0].field}`: {problems[0].message}", problems=problems)
    return found


def _invalid(problems: Any) -> BundleInvalid:
    told = [Problem("bundle_invalid", message, field) for field, message in problems]
    return BundleInvalid(f"`{told[0].field}`: {told[0].message}", problems=told)
