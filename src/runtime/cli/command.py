"""The `zoned` command: reads the settings and has all other commands as subcommands."""

import os
from pathlib import Path

import click
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from runtime.app import UnsafeSettings, check
from runtime.cli.api_keys import api_key
from runtime.cli.audit import audit, openapi
from runtime.cli.backups import backup, restore
from runtime.cli.doctor import doctor
from runtime.cli.execution import CommandError
from runtime.cli.organizations import organization, organization_user
from runtime.cli.serving import serve
from runtime.cli.setup import init, migrate
from runtime.cli.users import user
from runtime.cli.zones import keys, zone
from runtime.settings import InvalidSettings, Settings, meant, misspelt


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zonewright", prog_name="zoned")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings file (YAML)."
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Serve identity zones: a management API, and an OAuth 2.1 / OpenID Connect server for every zone."""
    for name, setting in misspelt(os.environ):
        hint = f"; did you mean {setting}?" if setting else ""
        click.echo(f"Warning: {name} is not a setting{hint}", err=True)
    try:
        context.obj = Settings.load(config)
        check(context.obj)
    except ValidationError as failure:
        raise CommandError(
            "settings: " + "; ".join(_explained(each, config) for each in failure.errors())
        ) from None
    except (UnsafeSettings, InvalidSettings) as failure:
        raise CommandError(str(failure)) from None


def _explained(error: ErrorDetails, config: Path | None) -> str:
    name = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        variable = f"ZONED_{name.upper()}"
        where = f"`{variable}`" if variable in os.environ else f"`{name}` in {config}" if config else name
        return f"{where}: {error['msg']}"
    setting = meant(name)
    return f"unknown setting `{name}`" + (f"; did you mean `{setting}`?" if setting else "")


for _command in (
    init,
    serve,
    migrate,
    user,
    organization,
    organization_user,
    api_key,
    keys,
    zone,
    audit,
    backup,
    restore,
    doctor,
    openapi,
):
    main.add_command(_command)
