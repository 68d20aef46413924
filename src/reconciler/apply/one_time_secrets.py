"""Writes secrets that the server shows once to files that only this user can read (`--secrets-dir`)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from reconciler.files import check_writable, read_private, write_private
from reconciler.plan import Action, Plan, Refusal
from reconciler.plan.model import Op
from reconciler.plan.operations import spec_of

from .git_ignore import make_ignored

MAX_NAME_BYTES = 240  # file systems take 255


class DeliveryImpossible(Exception):
    """One-time secrets could not be written anywhere; nothing was sent."""


@dataclass(frozen=True)
class DeliveryResult:
    """The result of writing one-time secrets: the files written, and the failures.

    `arrived` are the results of the operations whose secrets are in files.
    """

    written: tuple[Path, ...] = ()
    failed: tuple[str, ...] = ()
    arrived: tuple[Mapping[str, Any], ...] = ()


def check_delivery(plan: Plan, directory: Path | None) -> None:
    """Check before anything is sent that one-time secrets can be written.

    Raises:
        DeliveryImpossible: no directory was named, it is not writable, or an unrelated file has the name of a
            secret's file.
    """
    shown = plan.showing_once
    if not shown:
        return
    if directory is None:
        raise DeliveryImpossible(
            f"{', '.join(action.title for action in shown)}: the server generates a secret and shows it once;"
            " name a directory for it with `--secrets-dir DIRECTORY`"
        )
    try:
        make_ignored(directory)
        check_writable(directory)
    except OSError as error:
        raise DeliveryImpossible(f"`{directory}` cannot be written to: {error.strerror}") from error
    for action in _creations(plan).values():
        if action.shown_once:
            _refuse_other(
                directory / file_name(action.zone, action.kind, action.name),
                _identity(plan.organization_id, action),
            )


def delivery_refusals(plan: Plan, directory: Path | None) -> Iterator[Refusal]:
    """Why one-time secrets could not be written, as far as that can be known before anything is sent."""
    try:
        check_delivery(plan, directory)
    except DeliveryImpossible as error:
        yield Refusal("delivery", str(error))


def file_name(zone: str | None, kind: str, name: str) -> str:
    """`<zone>.<kind>.<name>.json`; without a zone `<kind>.<name>.json`. Unique for each object.

    Dots within a part are escaped, so that file names are unambiguous. A long name is cut and ends in `~` and
    its digest; `~` occurs in no part.
    """
    parts = [_quoted(part) for part in (zone, kind, name) if part is not None]
    whole = ".".join(parts)
    if len(whole) > MAX_NAME_BYTES:
        whole = f"{whole[: MAX_NAME_BYTES - 65]}~{hashlib.sha256(whole.encode()).hexdigest()}"
    return f"{whole}.json"


def _quoted(part: str) -> str:
    return quote(part, safe=" ").replace(".", "%2E").replace("~", "%7E")


def deliver(plan: Plan, results: Sequence[Mapping[str, Any]], directory: Path) -> DeliveryResult:
    """Write one file for each operation that returned secrets; see `file_name`.

    A file has the secrets and the identity of their object. It replaces an older file of the same object. A
    failure to write one does not stop the others.
    """
    actions = _creations(plan)
    written, failed, arrived = [], [], []
    for result in results:
        shown = result.get("shown_once")
        if not shown:
            continue
        index = int(result["index"])
        action = actions.get(index)
        if action is None:
            failed.append(f"operation {index}: no action of the plan matches it")
            continue
        identifier = spec_of(plan.operations[index]).get("identifier")
        content = {
            **shown,
            "identifier": identifier,
            "id": result["id"],
            **_identity(plan.organization_id, action),
        }
        file = directory / file_name(action.zone, action.kind, action.name)
        try:
            _refuse_other(file, _identity(plan.organization_id, action))
            write_private(file, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n", durable=True)
        except (OSError, DeliveryImpossible) as error:
            failed.append(f"{action.title}: {error}")
        else:
            written.append(file)
            arrived.append(result)
    return DeliveryResult(tuple(written), tuple(failed), tuple(arrived))


def created_with_secrets(plan: Plan, results: Sequence[Mapping[str, Any]]) -> list[Action]:
    """The objects with a one-time secret that an applied changeset has created, with their ids."""
    actions = _creations(plan)
    found = ((actions.get(int(each["index"])), each) for each in results)
    return [
        replace(action, id=str(result["id"]))
        for action, result in found
        if action is not None and action.shown_once
    ]


def unconfirmed_files(plan: Plan, directory: Path) -> list[tuple[Action, Path]]:
    """Objects whose secrets are in their files and were never confirmed to the server, including these."""
    found = ((each, file_with_secret(plan.organization_id, each, directory)) for each in plan.undelivered)
    return [(each, file) for each, file in found if file is not None]


def file_with_secret(organization_id: str, action: Action, directory: Path) -> Path | None:
    """The file with an object's current secret, if any; it must name the id of this very object."""
    file = directory / file_name(action.zone, action.kind, action.name)
    try:
        content = orjson.loads(read_private(file))
    except (OSError, ValueError):
        return None
    wanted = {**_identity(organization_id, action), "id": action.id}
    return file if isinstance(content, dict) and wanted.items() <= content.items() else None


def _creations(plan: Plan) -> dict[int, Action]:
    """Index of each operation that creates something -> the action that describes it.

    Both are in the same order.

    Raises:
        DeliveryImpossible: the plan has no such order.
    """
    operations = [
        (index, operation) for index, operation in enumerate(plan.operations) if operation["op"] == "create"
    ]
    actions = [action for action in plan.actions if action.op in (Op.CREATE, Op.REPLACE)]
    same = [(operation["kind"], operation.get("name")) for _, operation in operations] == [
        (action.kind, action.name) for action in actions
    ]
    if not same:
        raise DeliveryImpossible("the operations and the actions create different objects; plan again")
    return {index: action for (index, _), action in zip(operations, actions, strict=True)}


def _identity(organization_id: str, action: Action) -> dict[str, Any]:
    """The identity of the object that a file belongs to."""
    return {
        "organization_id": organization_id,
        "zone": action.zone,
        "kind": action.kind,
        "name": action.name,
    }


def _refuse_other(file: Path, identity: Mapping[str, Any]) -> None:
    """Refuse to replace anything but an older secret of the same object. Raises DeliveryImpossible."""
    try:
        content = orjson.loads(read_private(file))
        same = isinstance(content, dict) and identity.items() <= content.items()
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        same = False
    if not same:
        raise DeliveryImpossible(
            f"`{file}` exists and is not an older secret of the same object; "
            "move it away, or name another directory with `--secrets-dir`"
        )
