"""`zoned`: sets up, serves and looks after the service."""

import asyncio
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sanic import Sanic
from sanic.worker.loader import AppLoader

from runtime.api.shared.arrival import PromptProtocol
from runtime.app import (
    UnsafeSettings,
    build,
    check,
    key_encryption_of,
    listening_socket,
)
from runtime.cli_organizations import organization, organization_user
from runtime.connected import Refused, in_one_line, with_parts
from runtime.domain.errors import ServiceError
from runtime.services import keys as zone_keys
from runtime.services import switches
from runtime.services.management import audit as audit_trail
from runtime.services.management.organizations import api_keys, organizations
from runtime.services.parts import Parts
from runtime.services.sign_in import users
from runtime.settings import Settings, SettingsUnreadable, meant, misspelt
from runtime.storage.sql import migrate as migrations


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zonewright", prog_name="zoned")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings file (YAML)."
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Serve identity zones: a management API, and an OAuth 2.1 / OpenID Connect server for every zone."""
    for name, setting in misspelt(os.environ):
        click.echo(f"Warning: {name} is no setting; did you mean {setting}?", err=True)
    try:
        context.obj = Settings.load(config)
        check(context.obj)
    except ValidationError as failure:
        raise Refused("settings: " + "; ".join(_told(each) for each in failure.errors())) from None
    except (UnsafeSettings, SettingsUnreadable) as failure:
        raise Refused(str(failure)) from None


def _told(error: ErrorDetails) -> str:
    name = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        return f"{name}: {error['msg']}"
    setting = meant(name)
    return f"unknown setting `{name}`" + (f"; did you mean `{setting}`?" if setting else "")


@main.command()
@click.option("--organization", default="Default organization", show_default=True, help="Its display name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def init(settings: Settings, organization: str, as_json: bool) -> None:
    """Create storage, keys and an organization.

    The organization comes with an API key, which is shown once.
    """
    with in_one_line():
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        key_encryption_of(settings, create=True)
        asyncio.run(migrations.migrate(settings.resolved_database_url))

    async def create(parts: Parts) -> tuple[str, str]:
        if (label := await organizations.any_label(parts)) is not None:
            raise Refused(
                "this service is set up already; another key for its organization: "
                f"`zoned api-key add --organization {label} --name NAME`"
            )
        made, api_key = await organizations.create_organization(parts, organization)
        return made.id, api_key

    organization_id, api_key = with_parts(settings, create)
    if as_json:
        answer = {"organization_id": organization_id, "api_key": api_key, "base_url": settings.public_url}
        click.echo(json.dumps(answer))
        return
    click.echo(f"organization  {organization_id}\napi key       {api_key}   (shown once: keep it now)")
    click.echo(f"base url      {settings.public_url}\n\nStart the service with `zoned serve`.")


@main.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Serve the management API and every zone."""

    # A worker that cannot connect would only say so in its log: that is tried here.
    with_parts(settings, organizations.complete_own_zones)
    try:
        bound = listening_socket(settings.listen)
    except OSError as failure:
        raise Refused(f"cannot listen on `{settings.listen}` (ZONED_LISTEN): {failure.strerror}") from None
    except (ValueError, OverflowError):
        raise Refused(
            f"ZONED_LISTEN `{settings.listen}` is not an address and a port, as in `127.0.0.1:8080`"
        ) from None
    loader = AppLoader(factory=partial(build, settings))
    app = loader.load()
    single = settings.workers == 1
    app.prepare(
        sock=bound,
        workers=settings.workers,
        single_process=single,
        protocol=PromptProtocol,
        motd=False,
        access_log=False,
    )
    if single:
        Sanic.serve_single(primary=app)
    else:
        Sanic.serve(primary=app, app_loader=loader)


@main.command()
@click.pass_obj
def migrate(settings: Settings) -> None:
    """Bring the database's tables up to date. Start-up never does this by itself."""
    with in_one_line():
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        asyncio.run(migrations.migrate(settings.resolved_database_url))
    click.echo("the database is up to date")


@main.group()
def user() -> None:
    """Users of a zone that signs people in itself."""


@user.command("add")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--email", required=True)
@click.option("--password-stdin", is_flag=True, required=True, help="Read the password from standard input.")
@click.pass_obj
def add_user(settings: Settings, zone: str, email: str, password_stdin: bool) -> None:
    """Add a user with a password. The address counts as verified: you vouch for it."""
    password = sys.stdin.readline().rstrip("\r\n")

    async def create(parts: Parts) -> tuple[str, bool]:
        zone_id = await parts.zones.find_id(zone)
        made = await users.create_local_user(parts, zone_id, email, password, verified=True)
        view = await parts.zones.view(zone_id)
        return made.id, view.zone.user_identity_provider_id is not None

    user_id, signs_in_elsewhere = with_parts(settings, create)
    click.echo(user_id)
    if signs_in_elsewhere:
        click.echo("nobody is asked for this password: people sign in with the zone's provider", err=True)


main.add_command(organization)
main.add_command(organization_user)


@main.group("api-key")
def api_key() -> None:
    """Keys that call the management API."""


@api_key.command("add")
@click.option("--organization", required=True, metavar="ID", help="The organization's id or label.")
@click.option("--name", required=True)
@click.option("--role", type=click.Choice(["org_admin", "org_member", "org_viewer"]), default="org_admin")
@click.pass_obj
def add_api_key(settings: Settings, organization: str, name: str, role: str) -> None:
    """Add an API key and print it; it is shown once."""
    click.echo(with_parts(settings, lambda parts: api_keys.create(parts, organization, name=name, role=role)))


@main.group()
def keys() -> None:
    """Signing keys of zones."""


def _tell_when(settings: Settings) -> None:
    """Say when a running server knows: epochs reach it through Redis, or run out."""
    if not settings.redis_url:
        click.echo("a running server notices within a minute; restart it to have it at once", err=True)


_ALGORITHM = click.Choice(["RS256", "ES256"])


@keys.command("rotate")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option(
    "--algorithm", type=_ALGORITHM, default="RS256", show_default=True, help="Which of its keys to replace."
)
@click.option(
    "--at-once",
    is_flag=True,
    help="The present key may be known to others: withdraw it and refuse every token it signed.",
)
@click.pass_obj
def rotate_keys(settings: Settings, zone: str, algorithm: Any, at_once: bool) -> None:
    """Publish a zone's next signing key and print its kid. It signs once verifiers had time to fetch it."""

    async def rotate(parts: Parts) -> str:
        zone_id = await parts.zones.find_id(zone)
        return await zone_keys.rotate(parts, zone_id, algorithm, at_once=at_once)

    click.echo(with_parts(settings, rotate))
    _tell_when(settings)


@keys.command("list")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.pass_obj
def list_keys(settings: Settings, zone: str) -> None:
    """Print a zone's keys, oldest first: what each is for now, and when that changes."""

    async def read(parts: Parts) -> list[tuple[str, ...]]:
        now = parts.clock()
        found = await zone_keys.listed(parts, await parts.zones.find_id(zone))
        return [(each.kid, each.algorithm, *zone_keys.life(each, now)) for each in found]

    for line in with_parts(settings, read):
        click.echo("  ".join(line))


@keys.command("use")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.option("--algorithm", type=_ALGORITHM, required=True, help="What access tokens are signed with.")
@click.pass_obj
def use_keys(settings: Settings, zone: str, algorithm: Any) -> None:
    """Sign a zone's access tokens with that algorithm from now on. It has had a key for each all along."""

    async def use(parts: Parts) -> None:
        await zone_keys.use_algorithm(parts, await parts.zones.find_id(zone), algorithm)

    with_parts(settings, use)
    click.echo(f"access tokens of `{zone}` are signed with {algorithm}")
    _tell_when(settings)


@main.group()
def zone() -> None:
    """Switches of zones that no manifest has."""


@zone.command("set")
@click.option("--zone", required=True, metavar="SLUG", help="The zone's slug or id.")
@click.argument("switch")
@click.argument("value")
@click.pass_obj
def set_zone(settings: Settings, zone: str, switch: str, value: str) -> None:
    """Set a switch: `strict-assertion-audience`, `require-dpop-nonce` or `grant-missing-error`."""

    async def change(parts: Parts) -> None:
        await switches.set_switch(parts, await parts.zones.find_id(zone), switch, value)

    with_parts(settings, change)
    click.echo(f"`{switch}` of `{zone}` is `{value}`")
    _tell_when(settings)


@main.group()
def audit() -> None:
    """The audit trail."""


@audit.command("verify")
@click.option("--organization", metavar="ID", help="The organization's id or label; all when absent.")
@click.pass_obj
def verify_audit(settings: Settings, organization: str | None) -> None:
    """Prove every record, every link and the head of the audit chain; exit 1 when one does not hold.

    Keep the hashes that it prints elsewhere: nobody can then rewrite the past without showing it.
    """

    async def verify(parts: Parts) -> bool:
        holds = True
        async for verdict in audit_trail.verify(parts, organization):
            holds = holds and verdict.broken_at is None
            click.echo(_line(verdict))
        return holds

    if not with_parts(settings, verify):
        raise SystemExit(1)


def _line(verdict: audit_trail.Verdict) -> str:
    if verdict.broken_at is None:
        return f"{verdict.organization_id}  ok      {verdict.records} records, head {verdict.hash}"
    return f"{verdict.organization_id}  broken  at {verdict.broken_at}: {verdict.reason}"


@main.command()
@click.pass_obj
def doctor(settings: Settings) -> None:
    """Check settings, keys and storage.

    Exits with 1 when something is wrong.
    """

    async def look(parts: Parts) -> list[tuple[str, str]]:
        found = []
        for name, part in (("database", parts.database), ("short-lived state", parts.state)):
            try:
                await part.ping()
                found.append((name, "ok"))
            except ServiceError as failure:
                found.append((name, failure.detail))
        return found

    results = [("settings", "ok"), ("keys and migrations", "ok"), *with_parts(settings, look)]
    for name, result in results:
        click.echo(f"{name:20} {result}")
    if any(result != "ok" for _, result in results):
        raise SystemExit(1)


@main.command()
def openapi() -> None:
    """Print the management API's OpenAPI document."""
    from runtime.contract.openapi import openapi as document

    click.echo(json.dumps(document(), indent=2))
