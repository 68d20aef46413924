"""`zoned api-key`: create, list and revoke API keys of the management API."""

import copy
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import click
from click.decorators import FC
from pydantic import TypeAdapter, ValidationError

from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.execution import with_services
from runtime.cli.operators import current_operator
from runtime.domain.kinds.api_key import ApiKey
from runtime.domain.kinds.values import MAX_SECONDS, MIN_SECONDS, OrganizationRole, OwnerName, rfc3339
from runtime.services.container import Services
from runtime.services.management.organizations import api_keys
from runtime.settings import Settings

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MEMBERS = ("id", "name", "role", "owner", "zones", "created_at", "created_by", "expires_at", "last_used_at")


def _seconds(_context: click.Context, _option: click.Parameter, value: str | None) -> int | None:
    """How long something lasts, from `12h` or `90d`. Raises BadParameter."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,8})([mhdw])", value)
    if found is None:
        raise click.BadParameter(f"`{value}` is not a duration such as `12h`, `90d` or `52w`")
    seconds = int(found[1]) * _UNITS[found[2]]
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        least, most = f"{MIN_SECONDS // 60}m", f"{MAX_SECONDS // 86_400}d"
        raise click.BadParameter(f"`{value}` is not between `{least}` and `{most}`")
    return seconds


def _check_owner(owner: str) -> None:
    """Raise BadParameter for an invalid owner name."""
    try:
        TypeAdapter(OwnerName).validate_python(owner)
    except ValidationError:
        raise click.BadParameter(
            f"`{owner}` is not an owner name: use letters, digits and `. _ / @ : -`, and begin with a letter"
            " or digit"
        ) from None


def _expiry(name: str, about: str) -> Callable[[FC], FC]:
    return click.option(
        name,
        metavar="DURATION",
        callback=_seconds,
        help=f"{about}, such as `12h` or `90d`. Default: no expiry.",
    )


key_expires_in = _expiry("--key-expires-in", "Lifetime of the API key")
_of_organization = click.option(
    "--organization", required=True, metavar="ID", help="The organization's id or label."
)


@click.group("api-key")
def api_key() -> None:
    """API keys of the management API."""


@api_key.command("create")
@_of_organization
@click.option("--name", required=True, help="Name of the key, shown in lists.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in OrganizationRole]),
    help="Default: `org_admin`, or `org_member` for a bound key.",
)
@click.option(
    "--owner",
    metavar="NAME",
    help="Bind the key to one configuration owner: it cannot apply another owner's configuration.",
)
@click.option(
    "--zone",
    "zones",
    multiple=True,
    metavar="ID",
    help="Bind the key to a zone, by id or slug. May be repeated.",
)
@_expiry("--expires-in", "Lifetime of the key")
@click.pass_obj
def create_api_key(
    settings: Settings,
    organization: str,
    name: str,
    role: str | None,
    owner: str | None,
    zones: tuple[str, ...],
    expires_in: int | None,
) -> None:
    """Create an API key and print it. It is shown once.

    A key that is bound to an owner or to zones cannot have a role above `org_member`.
    """
    if owner is not None:
        _check_owner(owner)
    role = role or ("org_member" if owner or zones else "org_admin")

    async def create(services: Services) -> str:
        return await api_keys.create_for(
            services,
            organization,
            name=name,
            role=role,
            expires_in_seconds=expires_in,
            owner=owner,
            zones=zones,
            by=current_operator(),
        )

    click.echo(with_services(settings, create))


_add_api_key = copy.copy(create_api_key)  # its first name
_add_api_key.help = "The same as `create`."
api_key.add_command(_add_api_key, "add")


@api_key.command("list", cls=ReadOnlyCommand)
@_of_organization
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def list_api_keys(settings: Settings, organization: str, as_json: bool) -> None:
    """Print an organization's API keys, oldest first.

    Columns: id, role, expiry, last use, creator, owner and zones that it is bound to, name.
    """
    found = with_services(settings, lambda services: api_keys.every(services, organization))
    if as_json:
        click.echo(json.dumps([key.model_dump(mode="json", include=set(_MEMBERS)) for key in found]))
        return
    for key in found:
        told = (key.id, f"{key.role:10}", *_life(key), f"by {key.created_by}", *_bound(key), key.name)
        click.echo("  ".join(told))


def _bound(key: ApiKey) -> list[str]:
    """What a key is limited to; nothing for one that is not."""
    owner = [f"for {key.owner}"] if key.owner is not None else []
    return owner + ([f"in {', '.join(key.zones)}"] if key.zones is not None else [])


def _life(key: ApiKey) -> tuple[str, str]:
    """When a key ends, and when it was last used."""
    end = "never expires"
    if key.expires_at is not None:
        verb = "expired" if key.has_expired(datetime.now(UTC)) else "expires"
        end = f"{verb} {rfc3339(key.expires_at)}"
    return end, "never used" if key.last_used_at is None else f"used {rfc3339(key.last_used_at)}"


@api_key.command("revoke")
@click.argument("key")
@click.pass_obj
def revoke_api_key(settings: Settings, key: str) -> None:
    """Revoke an API key, and the keys that were created with it, with immediate effect.

    KEY is its id, as `list` prints it, or the whole key, for example one that has leaked.
    """
    ended = with_services(settings, lambda services: api_keys.revoke(services, key, by=current_operator()))
    click.echo("revoked" if ended == 1 else f"revoked, with {ended - 1} created with it")
