"""The options of the commands: their types, consents, secret sources and output paths."""

from pathlib import Path
from typing import Literal, TypedDict

from reconciler import environment_variables
from reconciler.apply import SecretSources, delivery_refusals, secret_refusals
from reconciler.client import Connection
from reconciler.exit_codes import REFUSED, USAGE, CommandFailed
from reconciler.files import FileRefused, Root, check_place
from reconciler.manifests.source_files import ENDINGS
from reconciler.plan import Cascades, Plan, Refusal, check_guards
from reconciler.plan.guards import CONSENTS
from reconciler.user_settings import InvalidUserSettings, allowed_names


class ConnectionOptions(TypedDict, total=False):
    """The options of every command that asks a server."""

    output: Literal["text", "json"]
    server: str | None
    organization: str | None
    api_key_file: str | None


class Options(ConnectionOptions, total=False):
    """The options of `plan`, `drift`, `apply` and `watch`, by the name of their parameter.

    Attributes:
        consent: `NAME=N`, unparsed.
        expect: digest of the plan that was reviewed.
        root: base directory of a saved plan's relative paths.
    """

    owner: str | None
    out: Path | None
    receipt: Path | None
    root: Path | None
    yes: bool
    expect: str | None
    secrets_dir: Path | None
    secrets_from: tuple[Path, ...]
    allow_env: tuple[str, ...]
    consent: tuple[str, ...]
    allow_deletes: int | None
    renew_lost: bool
    no_request_examples: bool


class DecisionOptions(ConnectionOptions, total=False):
    """The options of `decisions`, by the name of their parameter.

    Attributes:
        zone: id, slug or manifest's name; None for the only one.
        user, application, resource: an id or an identifier; of a user also the e-mail address, of the
            others the manifest's name.
    """

    zone: str | None
    request: tuple[str, ...]
    user: str | None
    application: str | None
    resource: str | None
    outcome: tuple[str, ...]
    event: tuple[str, ...]
    since: str | None
    until: str | None
    limit: int


class ExplainOptions(ConnectionOptions, total=False):
    """The options of `explain`, by the name of their parameter.

    Attributes:
        zone: id, slug or manifest's name; None for the only one.
        scope: none for all that can be had.
        user: None for a token of the application's own.
        via: applications that the token comes through, the first one first.
        config: manifests in which the deciding policies are looked up.
    """

    config: Path | None

    zone: str | None
    application: str
    resource: str
    user: str
    scope: tuple[str, ...]
    via: tuple[str, ...]


class SecretOptions(ConnectionOptions, total=False):
    """The options of `secret set`, `secret list` and `secret delete`, by the name of their parameter.

    Attributes:
        zone: id or slug; None for the only one.
        name: the secret's, where a resource has several.
        value_file: None for standard input.
    """

    zone: str | None
    name: str | None
    value_file: Path | None
    yes: bool


def find_refusals(
    plan: Plan, options: Options, sources: SecretSources, cascades: Cascades | None = None, *, applies: bool
) -> list[Refusal]:
    """Check the guards: the reasons to refuse the plan. Raises CommandFailed for an invalid `--consent`.

    Args:
        applies: this command applies the plan, so one-time secrets need `--secrets-dir` now.
    """
    found = [*check_guards(plan, _consents(options), cascades), *secret_refusals(plan, sources)]
    directory = options.get("secrets_dir")
    if applies and (directory is None or not found):  # this creates a missing directory
        found += delivery_refusals(plan, directory)
    return found


def _consents(options: Options) -> dict[str, int]:
    """`--consent` and `--allow-deletes`: name -> exact count. Raises CommandFailed."""
    consents: dict[str, int] = {}
    for each in options.get("consent", ()):
        name, _, count = each.partition("=")
        if name not in CONSENTS or not count.isdecimal():
            raise CommandFailed(
                USAGE,
                f"`--consent {each}`: expected one of {', '.join(CONSENTS)}, and a number, as in deletes=12",
            )
        consents[name] = int(count)
    if (deletes := options.get("allow_deletes")) is not None:
        consents["deletes"] = deletes
    return consents


def secret_sources(root: Root, options: Options, connection: Connection) -> SecretSources:
    """What `from_env` and `from_file` may read. Raises CommandFailed for an invalid option."""
    directories = []
    for each in options.get("secrets_from", ()):
        _check_path(each, root, "--secrets-from")
        directories.append(Root(each, hidden=True))
    try:
        environment = allowed_names(options.get("allow_env", ()), root)
    except InvalidUserSettings as error:
        raise CommandFailed(USAGE, str(error)) from error
    own = (
        *connection.secrets,
        environment_variables.read("API_KEY"),
        environment_variables.read("CLIENT_SECRET"),
    )
    return SecretSources(root, tuple(directories), environment, tuple(each for each in own if each))


def check_output_paths(options: Options, root: Root) -> None:
    """Refuse output paths that a symbolic link in the repository redirects. Raises CommandFailed."""
    out = options.get("out")
    if out is not None and out.suffix in ENDINGS:
        raise CommandFailed(
            USAGE, f"`--out {out}`: `{out.suffix}` is the extension of manifests; name the plan `*.json`"
        )
    written = {
        "--out": out,
        "--receipt": options.get("receipt"),
        "--secrets-dir": options.get("secrets_dir"),
    }
    for option, path in written.items():
        if path is not None:
            _check_path(path, root, option)


def _check_path(path: Path, root: Root, option: str) -> None:
    try:
        check_place(path, root)
    except FileRefused as refused:
        raise CommandFailed(REFUSED, f"`{option}`: {refused}") from refused
