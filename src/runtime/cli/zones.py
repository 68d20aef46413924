"""`zoned keys` and `zone`: rotate signing keys, set zone settings."""

from typing import Any

import click

from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import with_services
from runtime.cli.operators import current_operator
from runtime.services import zone_keys as zone_keys
from runtime.services import zone_settings
from runtime.services.container import Services
from runtime.services.management.zones import key_rotation, key_wrapping
from runtime.settings import Settings


@click.group()
def keys() -> None:
    """Signing keys of zones."""


_ALGORITHM = click.Choice(["RS256", "ES256"])


@keys.command("rotate")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option(
    "--algorithm",
    type=_ALGORITHM,
    default="RS256",
    show_default=True,
    help="Algorithm of the key to replace.",
)
@click.option(
    "--at-once",
    is_flag=True,
    help="The current key may be compromised: withdraw it, and refuse every token that it signed.",
)
@click.pass_obj
def rotate_keys(settings: Settings, zone: str, algorithm: Any, at_once: bool) -> None:
    """Publish a zone's next signing key and print its `kid`.

    The key signs once verifiers have had time to fetch it.
    """

    async def rotate(services: Services) -> str:
        zone_id = await services.zones.find_id(zone)
        return await key_rotation.rotate(services, zone_id, algorithm, at_once=at_once, by=current_operator())

    click.echo(with_services(settings, rotate))


@keys.command("list", cls=ReadOnlyCommand)
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.pass_obj
def list_keys(settings: Settings, zone: str) -> None:
    """Print a zone's signing keys, oldest first, with their states and the times of the next change."""

    async def read(services: Services) -> list[tuple[str, ...]]:
        now = services.clock()
        found = await zone_keys.listed(services.database, await services.zones.find_id(zone))
        return [(each.kid, each.algorithm, *zone_keys.life(each, now)) for each in found]

    for line in with_services(settings, read):
        click.echo("  ".join(line))


@keys.command("use")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--algorithm", type=_ALGORITHM, required=True, help="Signing algorithm of access tokens.")
@click.pass_obj
def use_keys(settings: Settings, zone: str, algorithm: Any) -> None:
    """Choose the signing algorithm of a zone's access tokens. A zone has a key for each algorithm."""

    async def use(services: Services) -> None:
        zone_id = await services.zones.find_id(zone)
        await key_rotation.use_algorithm(services, zone_id, algorithm, by=current_operator())

    with_services(settings, use)
    click.echo(f"access tokens of `{zone}` are signed with {algorithm}")


@keys.command("rewrap")
@click.pass_obj
def rewrap_keys(settings: Settings) -> None:
    """Wrap all stored keys with the current key-encryption key, while the service runs.

    Afterwards those in ZONED_OTHER_KEY_ENCRYPTION_KEYS are needed for older backups alone.
    """
    done = with_services(settings, lambda services: key_wrapping.rewrap(services, by=current_operator()))
    click.echo(f"wrapped anew: the keys of {done:,} zones; all others were already")


@click.group()
def zone() -> None:
    """Settings of zones."""


@zone.command("set")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.argument("setting")
@click.argument("value")
@click.pass_obj
def set_zone(settings: Settings, zone: str, setting: str, value: str) -> None:
    """Set a zone setting.

    Settings: strict-assertion-audience, require-dpop-nonce, require-active-accountable, grant-missing-error.
    `require-active-accountable on` prints the applications that it suspends.
    Manifests have the first as `protocols.oauth2.strict_assertion_audience`; the others are set here alone.
    """

    async def change(services: Services) -> list[str]:
        zone_id = await services.zones.find_id(zone)
        await zone_settings.set_zone_setting(services, zone_id, setting, value, by=current_operator())
        is_about_applications = setting.replace("-", "_") == zone_settings.SUSPENDING
        return await zone_settings.suspended_applications(services, zone_id) if is_about_applications else []

    suspended = with_services(settings, change)
    click.echo(f"`{setting}` of `{zone}` is `{value}`")
    for application in suspended:
        click.echo(
            f"`{application}` is suspended: nobody active is accountable for it; set `accountable_user` or"
            " `accountable_group` in its manifest, or enable the user"
        )
