"""`zoned audit verify` and `zoned openapi`: verify the audit chain, print the OpenAPI document."""

import json

import click

from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import with_services
from runtime.services.container import Services
from runtime.services.management import audit as audit_trail
from runtime.settings import Settings


@click.group()
def audit() -> None:
    """The audit trail."""


@audit.command("verify", cls=ReadOnlyCommand)
@click.option(
    "--organization", metavar="ID", help="The organization's id or label. Default: all organizations."
)
@click.pass_obj
def verify_audit(settings: Settings, organization: str | None) -> None:
    """Verify every record, every link and the head of the audit chain. Exits with 1 when one is not valid.

    Store the printed hashes elsewhere: with them, a later change of these records can be detected.
    """

    async def verify(services: Services) -> bool:
        holds = True
        async for verdict in audit_trail.verify(services, organization):
            holds = holds and verdict.broken_at is None
            click.echo(_line(verdict))
        return holds

    if not with_services(settings, verify):
        raise SystemExit(1)


def _line(verdict: audit_trail.ChainVerification) -> str:
    if verdict.broken_at is None:
        since = f" from {verdict.pruned + 1} on" if verdict.pruned else ""
        kept = verdict.records - verdict.pruned
        return f"{verdict.organization_id}  ok      {kept} records{since}, head {verdict.hash}"
    return f"{verdict.organization_id}  broken  at {verdict.broken_at}: {verdict.reason}"


@click.command(cls=ReadOnlyCommand)
def openapi() -> None:
    """Print the management API's OpenAPI document."""
    from runtime.contract.openapi import openapi as document

    click.echo(json.dumps(document(), indent=2))
