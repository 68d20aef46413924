"""`zoned init` and `migrate`: create storage and keys, migrate the schema."""

import asyncio
import json
from datetime import UTC, datetime

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime import files
from runtime.cli.addresses import port_mismatch
from runtime.cli.api_keys import key_expires_in
from runtime.cli.execution import CommandError, errors_in_one_line, with_services
from runtime.cli.operators import current_operator
from runtime.cli.private_files import close_private_files
from runtime.services.container import Services
from runtime.services.encryption_keys import key_encryption_of
from runtime.services.management import audit
from runtime.services.management.organizations import organizations
from runtime.settings import Settings
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.migrate import Migration


@click.command()
@click.option(
    "--organization",
    default="Default organization",
    show_default=True,
    help="Display name of the organization.",
)
@key_expires_in
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def init(settings: Settings, organization: str, key_expires_in: int | None, as_json: bool) -> None:
    """Create storage, keys and an organization.

    Prints the organization's API key, which is shown once.
    """
    if (warning := port_mismatch(settings)) is not None:
        click.echo(warning.told, err=True)
    with errors_in_one_line():
        files.make_directory(settings.data_dir)
        key_encryption_of(settings, create=True)
        migrate_recorded(settings.resolved_database_url)

    async def create(services: Services) -> tuple[str, str]:
        if (label := await organizations.any_label(services)) is not None:
            raise CommandError(
                "this service is set up already; to create another API key of its organization, run "
                f"`zoned api-key create --organization {label} --name NAME`"
            )
        made, api_key = await organizations.create_organization(
            services, organization, key_expires_in_seconds=key_expires_in, by=current_operator()
        )
        return made.id, api_key

    organization_id, api_key = with_services(settings, create)
    if as_json:
        answer = {"organization_id": organization_id, "api_key": api_key, "base_url": settings.public_url}
        click.echo(json.dumps(answer))
        return
    click.echo(f"organization  {organization_id}\napi key       {api_key}   (shown once: store it now)")
    click.echo(f"base url      {settings.public_url}\n\nStart the service with `zoned serve`.")


@click.command()
@click.pass_obj
def migrate(settings: Settings) -> None:
    """Migrate the database to the newest version. `zoned serve` does not migrate."""
    with errors_in_one_line():
        files.make_directory(settings.data_dir)
        migration = migrate_recorded(settings.resolved_database_url)
        close_private_files(settings)
    if migration.before is None:
        click.echo(f"the tables were created, at version `{migration.after}`")
        click.echo("Create the first organization with `zoned init`.")
    else:
        click.echo(f"the database is up to date, at version `{migration.after}`")


def migrate_recorded(database_url: str) -> Migration:
    """Bring the tables up to date, and let each organization's audit trail say so; the versions."""

    async def record(conn: AsyncConnection, before: str, after: str) -> None:
        versions = {"before": {"version": before}, "after": {"version": after}}
        by, now = current_operator(), datetime.now(UTC)
        await audit.record_database(conn, "database.migrate", by=by, now=now, **versions)

    return asyncio.run(migrations.migrate(database_url, then=record))
