"""`zoned keys` and `zone`: rotate signing keys, set zone settings, move zones to other addresses."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import click

from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import CommandError, with_services
from runtime.cli.operators import current_operator
from runtime.domain.errors import ServiceError
from runtime.domain.kinds.values import rfc3339
from runtime.domain.zone_addresses import FormerIssuer
from runtime.services import zone_keys as zone_keys
from runtime.services import zone_settings
from runtime.services.container import Services
from runtime.services.management.zones import key_rotation, key_wrapping, moving
from runtime.settings import Settings


@click.group()
def keys() -> None:
    """Signing keys of zones, and the wrapping of stored keys."""


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
    """Wrap all stored keys with the zone's own key-encryption key or the current one, while the service runs.

    Afterwards those in ZONED_OTHER_KEY_ENCRYPTION_KEYS are needed for older backups alone.
    """
    done = with_services(settings, lambda services: key_wrapping.rewrap(services, by=current_operator()))
    for zone_id, reason in done.skipped.items():
        click.echo(f"left as it is: the key of zone {zone_id}: {reason}", err=True)
    others = "not all others could be" if done.skipped else "all others were already"
    click.echo(f"wrapped anew: the keys of {done.zones:,} zones; {others}")
    if done.skipped:
        raise CommandError(f"the keys of {len(done.skipped):,} zones could not be wrapped: run this again")


@click.group()
def zone() -> None:
    """Settings and addresses of zones."""


_KEEP_ENDLESSLY = "until-ended"


class _Kept(click.ParamType[Any]):
    """A number of days, or `until-ended`."""

    name = "days"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | str:
        if value == _KEEP_ENDLESSLY:
            return _KEEP_ENDLESSLY
        if not (value.isascii() and value.isdigit() and len(value) <= 4):
            self.fail(f"`{value}` is neither a number of days nor `{_KEEP_ENDLESSLY}`", param, ctx)
        return timedelta(days=int(value))


@zone.command("move")
@click.option("--zone", metavar="SLUG", help="The zone's slug or id.")
@click.option("--to", metavar="URL", help="The new address: scheme, host and port; the path stays.")
@click.option(
    "--all", "all_zones", is_flag=True, help="Every zone, to the address that the settings give it now."
)
@click.option(
    "--keep-former",
    type=_Kept(),
    metavar="DAYS",
    default=str(moving.KEPT_FORMER.days),
    show_default=True,
    help=f"For how many days the former address is answered, too; or `{_KEEP_ENDLESSLY}`.",
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.pass_obj
def move_zone(
    settings: Settings,
    zone: str | None,
    to: str | None,
    all_zones: bool,
    keep_former: timedelta | str,
    dry_run: bool,
) -> None:
    """Give a zone another issuer, and answer at the former one for a while.

    Read `docs/operating/moving-an-issuer.md` first: it says what applications, resource servers and identity
    providers have to do, and in which order.
    """
    if all_zones == (zone is not None) or (zone is None) != (to is None):
        raise click.UsageError("give `--zone` and `--to`, or `--all`")

    async def run(services: Services) -> tuple[int, int]:
        ends_at = None if isinstance(keep_former, str) else services.clock() + keep_former
        chosen = [await services.zones.find_id(zone)] if zone else await moving.every_zone(services)
        done = refused = 0
        for zone_id in chosen:
            try:
                found = await moving.move(
                    services, zone_id, to, ends_at=ends_at, dry_run=dry_run, by=current_operator()
                )
            except ServiceError as refusal:
                if not all_zones:
                    raise
                click.echo(f"zone {zone_id}: not moved: {refusal.detail}", err=True)
                refused += 1
                continue
            done += found is not None
            for line in _told(found, settings) if found is not None else ():
                click.echo(line)
        return done, refused

    done, refused = with_services(settings, run)
    click.echo(f"{'would be moved' if dry_run else 'moved'}: {done:,} zones")
    if refused:
        raise CommandError(f"not moved: {refused:,} zones")


def _told(found: moving.Move, settings: Settings) -> Iterator[str]:
    """What a move comes to, for the operator."""
    former, new = moving.issuer_at_present(found.before), moving.issuer_at_present(found.after)
    until = "until it is ended" if found.ends_at is None else f"until {rfc3339(found.ends_at)}"
    yield f"zone {found.before.id} `{found.before.slug}`"
    yield f"  issuer    {former} -> {new}"
    yield f"  former    answered {until}"
    if found.provider is not None:
        oauth2 = found.after.protocols.oauth2
        yield f"  register  at the identity provider `{found.provider.identifier}`:"
        yield f"            {oauth2.redirect_uri} (redirect URI)"
        yield f"            {oauth2.post_logout_redirect_uri} (post-logout redirect URI)"
        yield f"            {oauth2.backchannel_logout_uri} (back-channel logout URI)"
    for zone_id, identifier in found.named_by:
        yield f"  change    the provider `{identifier}` of zone {zone_id}: it names the former issuer"
    if found.differs_by_scheme_alone and not settings.proxies:
        yield "  warning   nothing tells the two addresses apart, and both are answered as the new one: set"
        yield "            ZONED_PROXIES, and have the proxy send `X-Forwarded-Proto`"
    if found.is_downgrade:
        yield "  warning   from `https` to `http`: passwords, cookies and tokens travel in clear"


@zone.command("end-move")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--issuer", metavar="URL", help="Only this former issuer, or that of this origin.")
@click.pass_obj
def end_move(settings: Settings, zone: str, issuer: str | None) -> None:
    """Answer a zone's former addresses no more, and accept none of their tokens, from now on."""

    async def end(services: Services) -> list[str]:
        zone_id = await services.zones.find_id(zone)
        return await moving.end(services, zone_id, issuer, by=current_operator())

    for ended in with_services(settings, end):
        click.echo(f"ended: {ended}")


@zone.command("addresses", cls=ReadOnlyCommand)
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_addresses(settings: Settings, zone: str, as_json: bool) -> None:
    """Print a zone's issuer, its former ones, and who asked there last: to know when a move can be ended."""

    async def read(services: Services) -> tuple[moving.Addresses, datetime]:
        zone_id = await services.zones.find_id(zone)
        return await moving.listed(services, zone_id), services.clock()

    found, now = with_services(settings, read)
    if as_json:
        click.echo(json.dumps(_document(found, now)))
        return
    click.echo(f"{found.issuer}  present")
    for former in found.former:
        click.echo(f"{former.issuer}  {_state(former, now)}")
        for use in (each for each in found.uses if each.issuer == former.issuer):
            who = f"client {use.client_id}" if use.client_id else "no client named"
            click.echo(f"  {rfc3339(use.used_at)}  {use.endpoint}  {who}")


def _state(former: FormerIssuer, now: datetime) -> str:
    if former.ends_at is None:
        return "answered until it is ended"
    word = "answered until" if former.is_answered(now) else "ended"
    return f"{word} {rfc3339(former.ends_at)}"


def _document(found: moving.Addresses, now: datetime) -> dict[str, Any]:
    return {
        "issuer": found.issuer,
        "former": [
            {
                "issuer": each.issuer,
                "moved_at": rfc3339(each.moved_at),
                "ends_at": rfc3339(each.ends_at) if each.ends_at else None,
                "answered": each.is_answered(now),
                "uses": [
                    {"endpoint": use.endpoint, "client_id": use.client_id or None, "at": rfc3339(use.used_at)}
                    for use in found.uses
                    if use.issuer == each.issuer
                ],
            }
            for each in found.former
        ],
    }


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
