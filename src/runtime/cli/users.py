"""`zoned user`: add, list, disable and enable users of a zone, and reset their passwords."""

import sys
from typing import BinaryIO

import click

from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import CommandError, with_services
from runtime.cli.operators import current_operator
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.services.authority.password_reset_links import LINK_MINUTES
from runtime.services.container import Services
from runtime.services.management.members import provisioning
from runtime.services.management.people import user_administration, user_imports
from runtime.services.management.people.user_imports import ImportTally, NothingImported
from runtime.services.zones import CachedZone
from runtime.settings import Settings

_ZONE = click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
_USER = click.option(
    "--user", "--email", "name", required=True, help="The user's id, identifier or e-mail address."
)


@click.group()
def user() -> None:
    """Users of a zone."""


@user.command("add")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--email", required=True, help="E-mail address of the user.")
@click.option("--password-stdin", is_flag=True, required=True, help="Read the password from standard input.")
@click.pass_obj
def add_user(settings: Settings, zone: str, email: str, password_stdin: bool) -> None:
    """Add a user with a password. The e-mail address is stored as verified."""
    password = sys.stdin.readline().rstrip("\r\n")

    async def create(services: Services) -> tuple[str, bool]:
        zone_id = await services.zones.find_id(zone)
        made = await provisioning.add_user(
            services, zone_id, email=email, password=password, by=current_operator()
        )
        found = await services.zones.get(zone_id)
        return made.id, found.entity.user_identity_provider_id is not None

    user_id, signs_in_elsewhere = with_services(settings, create)
    click.echo(user_id)
    if signs_in_elsewhere:
        click.echo(
            "this password is not used: users of the zone sign in with its identity provider", err=True
        )


@user.command("list", cls=ReadOnlyCommand)
@_ZONE
@click.option("--email", help="Only users with this e-mail address.")
@click.pass_obj
def list_users(settings: Settings, zone: str, email: str | None) -> None:
    """Print users: id, e-mail address, status, how and when they last signed in.

    One line for each, the columns separated by tabs; `-` where there is nothing.
    """

    async def show(services: Services) -> None:
        found = await services.zones.get(await services.zones.find_id(zone))
        async for each in user_administration.listed(services, found, email=email):
            signed_in = f"{each.authenticated_at:%Y-%m-%dT%H:%M:%SZ}" if each.authenticated_at else "-"
            how = ",".join(each.signs_in_with) or "-"
            click.echo(f"{each.id}\t{each.email}\t{each.status}\t{how}\t{signed_in}")

    with_services(settings, show)


@user.command("disable")
@_ZONE
@_USER
@click.pass_obj
def disable_user(settings: Settings, zone: str, name: str) -> None:
    """Disable a user: sessions end, tokens are revoked, and the user cannot sign in."""
    _set_status(settings, zone, name, UserStatus.DISABLED)


@user.command("enable")
@_ZONE
@_USER
@click.pass_obj
def enable_user(settings: Settings, zone: str, name: str) -> None:
    """Enable a disabled user, who can sign in again."""
    _set_status(settings, zone, name, UserStatus.ACTIVE)


@user.command("reset")
@_ZONE
@_USER
@click.option("--password-stdin", is_flag=True, help="Set the password that standard input has.")
@click.pass_obj
def reset_user(settings: Settings, zone: str, name: str, password_stdin: bool) -> None:
    """Print a link on which a user chooses a new password, once; or set one with --password-stdin.

    Whoever has the link can use it. The user is signed out everywhere once the password is replaced.
    """
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else None

    async def reset(services: Services) -> tuple[User, str | None]:
        at, found = await _find(services, zone, name)
        if password is None:
            return found, await user_administration.reset_link(services, at, found, by=current_operator())
        await user_administration.set_password(services, at, found, password, by=current_operator())
        return found, None

    found, link = with_services(settings, reset)
    if link is None:
        click.echo(f"`{found.email}` has the new password, and is signed out everywhere")
    else:
        click.echo(link)
        click.echo(f"for `{found.email}`, within {LINK_MINUTES} minutes", err=True)


@user.command("import")
@_ZONE
@click.option("--all-or-nothing", is_flag=True, help="Import no user when a line is refused.")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.pass_obj
def import_users(settings: Settings, zone: str, all_or_nothing: bool, file: BinaryIO) -> None:
    """Import users from FILE, one JSON object a line, or from standard input with `-`.

    Members: email, email_verified, identifier, status, identities (issuer and subject), password_hash
    (argon2). A user who is there already is unchanged, so an import can be run again. Each line that is
    refused is reported by its number, and the others are imported. Exits with 1 when a line was refused.
    """

    async def run(services: Services) -> ImportTally:
        at = await services.zones.get(await services.zones.find_id(zone))
        try:
            return await user_imports.run(
                services,
                at,
                user_imports.lines_of(file.readline),
                by=current_operator(),
                refuse=lambda number, reason: click.echo(f"line {number}: {reason}", err=True),
                all_or_nothing=all_or_nothing,
            )
        except NothingImported:
            raise CommandError("nothing was imported: correct the lines above, or leave them out") from None

    tally = with_services(settings, run)
    told = f"{tally.added:,} added, {tally.unchanged:,} unchanged, {tally.refused:,} refused"
    click.echo(f"{told} of {tally.lines:,} users")
    if tally.refused:
        raise SystemExit(1)


def _set_status(settings: Settings, zone: str, name: str, status: UserStatus) -> None:
    async def change(services: Services) -> User:
        at, found = await _find(services, zone, name)
        await user_administration.set_status(services, at, found, status, by=current_operator())
        return found

    found = with_services(settings, change)
    click.echo(f"`{found.email}` ({found.id}) is {status.value}")


async def _find(services: Services, zone: str, name: str) -> tuple[CachedZone, User]:
    at = await services.zones.get(await services.zones.find_id(zone))
    return at, await user_administration.find(services, at, name)
