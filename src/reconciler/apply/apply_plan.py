"""Applies a plan: sends its changeset, writes one-time secrets to files, and makes the receipt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from reconciler.client import Api, ApiError
from reconciler.client.api import Progress
from reconciler.output_documents import RECEIPT, ReceiptDocument, ResultDocument, ZoneAddressDocument
from reconciler.plan import Plan

from .changeset_body import changeset_body, replace_secrets
from .one_time_secrets import (
    DeliveryResult,
    check_delivery,
    created_with_secrets,
    deliver,
    file_with_secret,
    unconfirmed_files,
)
from .secrets import SecretMissing, SecretSources, read_secret, reveal


@dataclass(frozen=True)
class ApplyResult:
    """The result of an apply.

    Attributes:
        lost: a one-time secret was in an answer that never arrived, or could not be written.
        delivered: objects whose one-time secret arrived when the plan was applied before, with its file in
            the directory of secrets, where it is there.
        unwritten: why secrets could not be written; one message each.
        unconfirmed: why the delivery could not be confirmed to the server; empty when it was.
    """

    receipt: ReceiptDocument
    files: tuple[Path, ...]
    replayed: bool
    lost: bool
    unwritten: tuple[str, ...] = ()
    unconfirmed: str = ""
    delivered: tuple[tuple[str, Path | None], ...] = ()


def apply_plan(
    api: Api,
    plan: Plan,
    *,
    sources: SecretSources,
    secrets_directory: Path | None = None,
    progress: Progress | None = None,
) -> ApplyResult:
    """Apply all operations of the plan as one changeset, or none.

    Args:
        sources: what `from_env` and `from_file` may read.
        secrets_directory: where secrets that the server shows once are written.

    Raises:
        SecretMissing, DeliveryImpossible: nothing was sent.
        ApiError: the server refused, or the answer did not come; applying the same plan again is safe.
    """
    check_delivery(plan, secrets_directory)
    operations = _with_secrets(plan, sources)
    outcome = api.apply(changeset_body(plan, operations), plan.idempotency_key, progress, default=reveal)
    results = outcome.body.get("operations", [])
    done = deliver(plan, results, secrets_directory) if secrets_directory is not None else DeliveryResult()
    expected = sum(action.shown_once for action in plan.actions)
    if outcome.replayed:
        earlier = _earlier_delivery(api, plan, results, secrets_directory)
    else:
        earlier = _EarlierDelivery(lost=len(done.written) < expected)
    files = [*done.written, *(file for _, file in earlier.delivered if file is not None)]
    receipt = _receipt(plan, outcome.body, files, replayed=outcome.replayed)
    if zones := _zone_addresses(api, results):
        receipt["zones"] = zones
    return ApplyResult(
        receipt,
        done.written,
        outcome.replayed,
        earlier.lost,
        done.failed,
        _confirm(api, plan, done),
        earlier.delivered,
    )


def _confirm(api: Api, plan: Plan, done: DeliveryResult) -> str:
    """Confirm the delivery of secrets to the server: the error message, or an empty string."""
    arrived = [(each["kind"], each["id"]) for each in done.arrived]
    return _send_confirmation(api, plan, arrived, f"{plan.idempotency_key}+delivered")


class _EarlierDelivery(NamedTuple):
    """What became of one-time secrets of a plan that had been applied before.

    Attributes:
        delivered: as `ApplyResult.delivered`.
        lost: a secret is not known to have arrived.
    """

    delivered: tuple[tuple[str, Path | None], ...] = ()
    lost: bool = False


def _earlier_delivery(
    api: Api, plan: Plan, results: Sequence[Mapping[str, Any]], directory: Path | None
) -> _EarlierDelivery:
    """What became of the secrets of a plan that was applied before this apply sent it again.

    A secret arrived where the directory has its file, which is confirmed now if it never was, or where the
    server knows that it was delivered. That of an object which is gone is not looked for.
    """
    made = created_with_secrets(plan, results)
    if not made:
        return _EarlierDelivery()
    confirmed = _confirmed_deliveries(api, plan)
    delivered, unconfirmed, lost = [], [], False
    for each in made:
        file = file_with_secret(plan.organization_id, each, directory) if directory is not None else None
        is_confirmed = confirmed.get(str(each.id)) if confirmed is not None else False
        if file is not None or is_confirmed:
            delivered.append((each.title, file))
        if is_confirmed is False:
            lost = lost or file is None
            unconfirmed += [(each.kind, str(each.id))] if file is not None else []
    _send_confirmation(api, plan, unconfirmed, f"{plan.idempotency_key}+found")
    return _EarlierDelivery(tuple(delivered), lost)


def _confirmed_deliveries(api: Api, plan: Plan) -> Mapping[str, bool] | None:
    """Id of each managed object -> whether its one-time secret was delivered, if it has one.

    None where the server does not answer.
    """
    try:
        entities = api.snapshot(plan.owner).entities
    except ApiError:
        return None
    return {each.id: not each.ownership.undelivered for each in entities if each.ownership is not None}


def _zone_addresses(api: Api, results: Sequence[Mapping[str, Any]]) -> list[ZoneAddressDocument]:
    """Slug and issuer of each zone that was created, as far as the caller may read them."""
    made = {each["id"]: each for each in results if (each["op"], each["kind"]) == ("create", "Zone")}
    try:
        zones = {each["id"]: each for each in api.zones()} if made else {}
    except ApiError:  # they are created, whatever is known of them
        return []
    return [
        {
            "name": str(result.get("name") or zone["name"]),
            "id": str(zone_id),
            "slug": str(zone["slug"]),
            "issuer": str(zone["protocols"]["oauth2"]["issuer"]),
        }
        for zone_id, result in made.items()
        if (zone := zones.get(zone_id)) is not None
    ]


def confirm_delivered_files(api: Api, plan: Plan, secrets_directory: Path) -> list[tuple[str, Path]]:
    """Confirm secrets that are in their files, but were never confirmed: (title, file) of each.

    When the server does not accept the confirmation, the next apply tries again.
    """
    found = unconfirmed_files(plan, secrets_directory)
    arrived = [(each.kind, str(each.id)) for each, _ in found]
    if not found or _send_confirmation(api, plan, arrived, f"{plan.idempotency_key}+found"):
        return []
    return [(each.title, file) for each, file in found]


def _send_confirmation(api: Api, plan: Plan, arrived: Sequence[tuple[str, str]], digest: str) -> str:
    if not arrived:
        return ""
    operations = [{"op": "delivered", "kind": kind, "id": entity_id} for kind, entity_id in arrived]
    body = {**changeset_body(plan, operations), "plan_digest": digest}
    try:
        api.confirm(body, digest)
    except ApiError as error:
        return str(error)
    return ""


def _with_secrets(plan: Plan, sources: SecretSources) -> list[dict[str, Any]]:
    missing: list[str] = []

    def resolve(reference: Mapping[str, Any]) -> Any:
        try:
            return read_secret(reference, sources)
        except SecretMissing as error:
            missing.append(f"{operation['kind']} {operation.get('name')}: {error}")
            return None

    filled = []
    for operation in plan.operations:
        spec = operation.get("spec")
        filled.append({**operation, "spec": replace_secrets(spec, resolve)} if spec else dict(operation))
    if missing:
        raise SecretMissing(*missing)
    return filled


def empty_receipt(plan: Plan) -> ReceiptDocument:
    """The receipt of a plan without operations, for which no request is sent."""
    return _receipt(plan, {"revision": plan.base_revision}, (), replayed=False)


def _receipt(
    plan: Plan, body: Mapping[str, Any], files: Sequence[Path], *, replayed: bool
) -> ReceiptDocument:
    return {
        "format": RECEIPT,
        "changeset_id": body.get("id"),
        "plan_digest": plan.digest,  # alone, as the plan prints it
        "organization_id": plan.organization_id,
        "server": plan.server,
        "owner": plan.owner,
        "source": dict(plan.source),
        "base_revision": plan.base_revision,
        "revision": body.get("revision", plan.base_revision),
        "replayed": replayed,
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "audit": body.get("audit"),
        "summary": plan.summary(),
        "operations": [
            cast(ResultDocument, {name: value for name, value in result.items() if name != "shown_once"})
            for result in body.get("operations", [])
        ],
        "secret_files": [str(file) for file in files],
    }
