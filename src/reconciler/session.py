"""A configuration and the server that it is compared with; and how each may fail, in words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.apply import (
    explain_rejection,
    make_plan,
    try_plan,
)
from reconciler.client import Api, ApiError, Conflicting, Connection, ConnectionIncomplete, Rejected
from reconciler.client.connection import find_connection
from reconciler.client.snapshots import SnapshotCache
from reconciler.configured import SettingsWrong, find_owner, read_settings
from reconciler.exits import FAILED, STALE, USAGE, Failure
from reconciler.kinds import Kinds, load_kinds
from reconciler.manifests import Configuration, find_source, load_configuration
from reconciler.manifests.cache import cache_directory
from reconciler.manifests.sources import SourceMissing
from reconciler.plan import Plan, PlanImpossible, Refusal
from reconciler.report.diagnostics import counted, diagnostics_text, printable

Options = Mapping[str, Any]


@dataclass
class Session:
    """A configuration that is valid, and the API it is compared with."""

    configuration: Configuration
    kinds: Kinds
    api: Api
    owner: str
    server: str

    @classmethod
    @contextmanager
    def open(cls, path: Path, options: Options, *, writes: bool) -> Iterator["Session"]:
        """Read PATH, and connect. Raises Failure."""
        configuration, kinds = load(path)
        settings = _usage(read_settings, path)
        owner = _usage(find_owner, options.get("owner"), settings)
        connection = connect(options, settings.server, settings.organization)
        with open_api(connection, writes=writes) as api:
            yield cls(configuration, kinds, api, owner, connection.server)

    def plan(self) -> Plan:
        """The plan. Raises Failure."""
        try:
            made = make_plan(self.api, self.configuration, self.kinds, owner=self.owner, server=self.server)
        except PlanImpossible as error:
            raise Failure(FAILED, str(error)) from error
        return made

    def check(self, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Let the server check a plan that no guard stands against. Raises Failure."""
        if not plan.empty and all(refusal.stale for refusal in refusals):
            with rejections(plan):
                try_plan(self.api, plan)


def load(path: Path) -> tuple[Configuration, Kinds]:
    """A valid configuration. Raises Failure with what is wrong with it."""
    kinds = load_kinds()
    try:
        source = find_source([path])
    except SourceMissing as error:
        raise Failure(USAGE, str(error)) from error
    configuration = load_configuration(source, kinds)
    if configuration.diagnostics:
        problems = counted(len(configuration.diagnostics), "problem")
        raise Failure(FAILED, f"the manifests are not valid\n{diagnostics_text(configuration)}\n{problems}")
    return configuration, kinds


def connect(options: Options, server: str | None = None, organization: str | None = None) -> Connection:
    """The connection. Raises Failure."""
    found: Connection = _usage(
        lambda: find_connection(
            server=options.get("server") or server,
            api_key_file=options.get("api_key_file"),
            organization=options.get("organization") or organization,
        )
    )
    return found


@contextmanager
def open_api(connection: Connection, *, writes: bool) -> Iterator[Api]:
    """The API; what goes wrong with it becomes a Failure."""
    try:
        with Api.open(connection, writes=writes, cache=SnapshotCache(cache_directory())) as api:
            yield api
    except Conflicting as error:
        raise Failure(STALE, error.message) from error
    except Rejected as error:
        if error.status != 401:
            raise Failure(FAILED, str(error)) from error
        what = "API key" if connection.api_key else "service account"
        raise Failure(
            FAILED, f"{connection.server} does not accept this {what}: {printable(str(error))}"
        ) from error
    except ApiError as error:
        raise Failure(FAILED, str(error)) from error


@contextmanager
def rejections(plan: Plan) -> Iterator[None]:
    """The server's objections to a plan, told with the manifests they are about."""
    try:
        yield
    except Conflicting as error:
        changed = "\n".join(f"  {printable(str(problem))}" for problem in explain_rejection(error, plan))
        raise Failure(STALE, f"the plan is stale: {printable(error.message)}\n{changed}") from error
    except Rejected as error:
        told = "\n".join(f"  {printable(str(problem))}" for problem in explain_rejection(error, plan))
        raise Failure(
            FAILED, f"the server refuses the plan ({error.code}); nothing was changed\n{told}"
        ) from error


def _usage(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (SettingsWrong, ConnectionIncomplete) as error:
        raise Failure(USAGE, str(error)) from error
