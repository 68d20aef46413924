"""`zoned organization` and `organization-user`: create and list organizations, add users to them."""

import json
import sys

import click

from runtime.cli.api_keys import key_expires_in
from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import with_services
from runtime.cli.operators import current_operator
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.container import Services
from runtime.services.management.members import provisioning
from runtime.services.management.organizations import organizations
from runtime.settings import Settings

_ROLES = click.Choice([role.value for role in OrganizationRole])


@click.group()
def organization() -> None:
    """Organizations of this service."""


@organization.command("add")
@click.option("--name", required=True, help="Display name of the organization.")
@key_expires_in
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def add_organization(settings: Settings, name: str, key_expires_in: int | None, as_json: bool) -> None:
    """Create an organization and its API key. The key is shown once."""

    async def create(services: Services) -> tuple[str, str, str]:
        made, api_key = await organizations.create_organization(
            services, name, key_expires_in_seconds=key_expires_in, by=current_operator()
        )
        return made.id, made.label, api_key

    organization_id, label, api_key = with_services(settings, create)
    if as_json:
        answer = {"organization_id": organization_id, "api_key": api_key, "base_url": settings.public_url}
        click.echo(json.dumps({**answer, "label": label}))
        return
    click.echo(f"organization  {organization_id}\nlabel         {label}")
    click.echo(f"api key       {api_key}   (shown once: store it now)")


@organization.command("list", cls=ReadOnlyCommand)
@click.pass_obj
def list_organizations(settings: Settings) -> None:
    """Print every organization: id, label, issuer of its home zone, and name."""
    for found, issuer in with_services(settings, organizations.every):
        click.echo(f"{found.id}  {found.label}  {issuer}  {found.name}")


@click.group("organization-user")
def organization_user() -> None:
    """Users who sign in to the management API of an organization."""


@organization_user.command("add")
@click.option("--organization", required=True, metavar="ID", help="The organization's id or label.")
@click.option("--email", required=True, help="E-mail address of the user.")
@click.option(
    "--role",
    type=_ROLES,
    default=OrganizationRole.MEMBER.value,
    show_default=True,
    help="Role in the organization.",
)
@click.option("--password-stdin", is_flag=True, help="Read a password for a new user from standard input.")
@click.pass_obj
def add_organization_user(
    settings: Settings, organization: str, email: str, role: str, password_stdin: bool
) -> None:
    """Add a user to an organization, and print their id.

    With a password, a user is created in the organization's home zone, and the e-mail address counts as
    verified. Without one, the user must exist there already: having signed in through its identity provider.
    """
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else None

    async def add(services: Services) -> str:
        made = await provisioning.add(
            services,
            organization,
            email=email,
            role=OrganizationRole(role),
            password=password,
            by=current_operator(),
        )
        return made.id

    click.echo(with_services(settings, add))
