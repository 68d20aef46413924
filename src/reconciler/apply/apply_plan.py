"""Applies a plan: sends its changeset, writes one-time secrets to files, and makes the receipt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from reconciler.client import Api, ApiError
from reconciler.client.api import Progress
from reconciler.output_documents import RECEIPT, ReceiptDocument, ResultDocument
from reconciler.plan import Plan

from .changeset_body import changeset_body, replace_secrets
from .one_time_secrets import DeliveryResult, check_delivery, deliver, unconfirmed_files
from .secrets import SecretMissing, SecretSources, read_secret, reveal


@dataclass(frozen=True)
class ApplyResult:
    """The result of an apply.

    Attributes:
        lost: a one-time secret was in an answer that never arrived, or could not be written.
        unwritten: why secrets could not be written; one message each.
        unconfirmed: why the delivery could not be confirmed to the server; empty when it was.
    """

    receipt: ReceiptDocument
    files: tuple[Path, ...]
    replayed: bool
    lost: bool
    unwritten: tuple[str, ...] = ()
    unconfirmed: str = ""


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
    receipt = _receipt(plan, outcome.body, done.written, replayed=outcome.replayed)
    return ApplyResult(
        receipt,
        done.written,
        outcome.replayed,
        len(done.written) < expected,
        done.failed,
        _confirm(api, plan, done),
    )


def _confirm(api: Api, plan: Plan, done: DeliveryResult) -> str:
    """Confirm the delivery of secrets to the server: the error message, or an empty string."""
    arrived = [(each["kind"], each["id"]) for each in done.arrived]
    return _send_confirmation(api, plan, arrived, f"{plan.idempotency_key}+delivered")


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
