"""The context of a command: the validated configuration, its settings, and the management API."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.apply import DryRunResult, dry_run_plan, server_rejection
from reconciler.client import (
    Api,
    ApiError,
    ConfiguredServer,
    Conflicting,
    Connection,
    ConnectionIncomplete,
    Rejected,
    ServerRefused,
)
from reconciler.client.connection import find_connection
from reconciler.client.known_servers import KnownServers, state_directory
from reconciler.client.snapshots import SnapshotCache
from reconciler.configuration_settings import (
    ConfigurationSettings,
    InvalidSettingsFile,
    OwnerRefused,
    find_owner,
    read_settings,
    require_other_owners,
)
from reconciler.exit_codes import FAILED, REFUSED, STALE, USAGE, CommandFailed, error_document
from reconciler.files import Root
from reconciler.kinds import Kinds, load_kinds
from reconciler.manifests import Configuration, find_source_files, load_configuration
from reconciler.manifests.source_files import SETTINGS_FILE, SourceError
from reconciler.manifests.validation_cache import cache_directory
from reconciler.plan import Plan, PlanImpossible
from reconciler.planning import make_plan
from reconciler.report.diagnostics import diagnostic_lines, validation_json
from reconciler.report.places import Places, as_recorded, places_from_here
from reconciler.report.plans import rejection_lines
from reconciler.report.progress import show_progress
from reconciler.report.unresolved_references import unresolved_report
from reconciler.report.value_diff import counted
from reconciler.server_problems import ServerRejection

from .options import ConnectionOptions, Options


@dataclass
class CommandContext:
    """A validated configuration, its settings, and the management API.

    Attributes:
        budgets: kind -> how many objects an apply may delete, as a number or `N%`.
        renew: replace objects whose one-time secret never arrived.
        request_examples: the decision impact of a plan names users and requests.
    """

    configuration: Configuration
    kinds: Kinds
    api: Api
    owner: str
    connection: Connection
    budgets: Mapping[str, int | str]
    renew: bool
    secrets_directory: Path | None
    request_examples: bool = True

    @classmethod
    @contextmanager
    def open(cls, path: Path, options: Options, *, writes: bool) -> Iterator["CommandContext"]:
        """Validate the configuration at *path*, and connect to its server. Raises CommandFailed."""
        configuration, kinds, settings = load(path)
        root = configuration.source.opener
        with _settings_failures():
            owner = find_owner(options.get("owner"), settings, configuration.source)
            require_other_owners(configuration.source, owner)
        claim = ConfiguredServer(settings.server, f"`{path / SETTINGS_FILE}`") if settings.server else None
        connection = connect(options, root, claim, settings.organization)
        with open_api(connection, root, writes=writes) as api:
            renew = bool(options.get("renew_lost"))
            budgets, secrets = settings.delete_budgets, options.get("secrets_dir")
            examples = not options.get("no_request_examples")
            yield cls(configuration, kinds, api, owner, connection, budgets, renew, secrets, examples)

    @property
    def server(self) -> str:
        """The server's base URL."""
        return self.connection.server

    @property
    def places(self) -> Places:
        """How text shows places of manifests: as seen from the current directory."""
        return places_from_here(self.configuration)

    def plan(self) -> Plan:
        """Plan against a snapshot of the server. Raises CommandFailed."""
        try:
            return make_plan(
                self.api,
                self.configuration,
                self.kinds,
                owner=self.owner,
                server=self.server,
                budgets=self.budgets,
                renew=self.renew,
                secrets_directory=self.secrets_directory,
            )
        except PlanImpossible as error:
            lines, problems = unresolved_report(error.problems, self.configuration)
            document = error_document(FAILED, lines[0], problems=problems)
            raise CommandFailed(FAILED, *lines, document=document) from error

    def dry_run(self, plan: Plan) -> DryRunResult:
        """Send the plan as a dry run, unless it is empty or incomplete."""
        if plan.empty or plan.refused or not plan.manifest_count:
            return DryRunResult()
        with show_progress(len(plan.operations), "checking") as progress:
            return dry_run_plan(
                self.api,
                plan,
                self.configuration,
                request_examples=self.request_examples,
                progress=progress,
            )


def load(path: Path) -> tuple[Configuration, Kinds, ConfigurationSettings]:
    """Load and validate a configuration and its settings. Raises CommandFailed with the diagnostics."""
    kinds = load_kinds()
    try:
        source = find_source_files([path])
        with _settings_failures():
            settings = read_settings(source)
        configuration = load_configuration(source, kinds, zones=settings.zones)
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    if configuration.diagnostics:
        problems = counted(len(configuration.diagnostics), "problem")
        raise CommandFailed(
            FAILED,
            "the manifests are not valid",
            *diagnostic_lines(configuration),
            problems,
            document=validation_json(configuration),
        )
    return configuration, kinds, settings


def connect(
    options: ConnectionOptions, root: Root, claim: ConfiguredServer | None, organization: str | None
) -> Connection:
    """Find server and credential; `server:` in the repository can only confirm them. Raises CommandFailed."""
    try:
        return find_connection(
            server=options.get("server"),
            known=_known_servers(root),
            claim=claim,
            api_key_file=options.get("api_key_file"),
            organization=options.get("organization") or organization,
        )
    except ConnectionIncomplete as error:
        raise CommandFailed(USAGE, str(error)) from error
    except ServerRefused as error:
        raise CommandFailed(REFUSED, str(error)) from error


def _known_servers(root: Root) -> KnownServers:
    return KnownServers(state_directory(), root)


@contextmanager
def open_api(connection: Connection, root: Root, *, writes: bool, secrets: bool = False) -> Iterator[Api]:
    """Open the API; its errors become a CommandFailed. Its cache is outside the repository at *root*."""
    directory = cache_directory()
    cache = None if directory in root else SnapshotCache(directory)

    def remember() -> None:
        _known_servers(root).remember(connection.caller, connection.server)

    try:
        with Api.open(connection, writes=writes, secrets=secrets, cache=cache, accepted=remember) as api:
            yield api
    except Conflicting as error:
        raise CommandFailed(STALE, error.message) from error
    except Rejected as error:
        if error.status != 401:
            raise CommandFailed(FAILED, str(error)) from error
        raise CommandFailed(
            FAILED, f"{connection.server} does not accept this {connection.what}: {error}"
        ) from error
    except ApiError as error:
        raise CommandFailed(FAILED, str(error)) from error


@contextmanager
def report_rejections(plan: Plan, configuration: Configuration | None = None) -> Iterator[None]:
    """Report a rejection of the plan with the manifests it concerns. Raises CommandFailed."""
    try:
        yield
    except Rejected as error:
        if not error.about_body:
            raise
        place = places_from_here(configuration) if configuration is not None else as_recorded
        raise rejection_failure(server_rejection(error, plan, configuration), place=place) from error


def rejection_failure(
    found: ServerRejection,
    document: Mapping[str, object] | None = None,
    *,
    place: Places = as_recorded,
) -> CommandFailed:
    """The failure of a command whose plan the server rejects. *place*: how text shows files."""
    code = STALE if found.stale else FAILED
    lines = rejection_lines(found, place)
    return CommandFailed(
        code,
        *lines,
        document=document
        or error_document(code, found.message, problems=[each.as_json() for each in found.problems]),
    )


@contextmanager
def _settings_failures() -> Iterator[None]:
    """Turn invalid settings into wrong usage, and another owner into a refusal."""
    try:
        yield
    except InvalidSettingsFile as error:
        raise CommandFailed(USAGE, str(error)) from error
    except OwnerRefused as error:
        raise CommandFailed(REFUSED, str(error)) from error


@contextmanager
def open_zones(options: ConnectionOptions) -> Iterator[Api]:
    """The API of a command that needs no configuration: nothing of a repository is read."""
    here = Root(Path())
    connection = connect(options, here, None, None)
    with open_api(connection, here, writes=False) as api:
        yield api


@contextmanager
def open_secrets(options: ConnectionOptions) -> Iterator[tuple[Api, Connection]]:
    """The same for a command that may change secrets in a vault, and the connection."""
    here = Root(Path())
    connection = connect(options, here, None, None)
    with open_api(connection, here, writes=False, secrets=True) as api:
        yield api, connection
