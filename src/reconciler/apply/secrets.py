"""Reads the secrets of manifests from files and environment variables, at the moment they are sent."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.files import FileRefused, Root
from reconciler.plan import Plan, Refusal

from .allowed_env import AllowedNames

MAX_SECRET_BYTES = 64 * 1024
SHORTEST_OWN = 8  # shorter values are no credentials, and may occur in other texts by chance


class SecretMissing(Exception):
    """A source that a manifest names has no secret, or may not be read; one problem each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class SecretSources:
    """The sources that secrets of manifests may be read from.

    Attributes:
        root: the repository; relative paths start in it.
        directories: further directories from the command line; a manifest alone reads nothing outside the
            root.
        environment: the variables that manifests may read, as allowed outside the repository.
        own: zonectl's own credentials. A text with one of them is refused as a secret, from any source: it
            would be sent to a provider of the manifest's choice.
    """

    root: Root
    directories: tuple[Root, ...] = ()
    environment: AllowedNames = field(default_factory=AllowedNames)
    own: tuple[str, ...] = ()


class SecretValue:
    """A clear-text secret that cannot be printed, logged, compared or put into JSON by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Secret(...)"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("a secret cannot be pickled")

    def reveal(self) -> str:
        """The clear text. For the request body alone."""
        return self._value


def read_secret(reference: Mapping[str, object], sources: SecretSources) -> SecretValue:
    """Read the secret of a reference.

    Raises:
        SecretMissing: there is none, it is empty, or the manifest may not read it.
    """
    name = str(reference.get("from_env") or "")
    path = str(reference.get("from_file", ""))
    if name:
        if problem := sources.environment.problem_of(name):
            raise SecretMissing(problem)
        text, what = os.environ.get(name, ""), f"the environment variable `{name}`"
        if not text:
            raise SecretMissing(f"{what} is not set")
    else:
        text, what = _read_file(path, sources), f"the secret's file `{path}`"
        if not text:
            raise SecretMissing(f"{what} is empty")
    if any(len(each) >= SHORTEST_OWN and each in text for each in sources.own):
        raise SecretMissing(
            f"{what} contains zonectl's own credential, which no manifest may use as a secret"
        )
    return SecretValue(text)


def _read_file(path: str, sources: SecretSources) -> str:
    try:
        content = _holder(path, sources).read(str(sources.root.path / path), at_most=MAX_SECRET_BYTES)
        return content.decode("utf-8").rstrip("\r\n")
    except FileRefused as refused:
        raise SecretMissing(f"the secret's file `{path}` {refused.reason}") from refused
    except UnicodeDecodeError as error:
        raise SecretMissing(f"the secret's file `{path}` is not text") from error


def _holder(path: str, sources: SecretSources) -> Root:
    """The directory that a file is read from. Raises FileRefused."""
    spelled = sources.root.path / path
    for directory in sources.directories:
        if spelled in directory:
            return directory
    sources.root.place(path)
    return sources.root


def secret_refusals(plan: Plan, sources: SecretSources) -> Iterator[Refusal]:
    """Why the plan's secrets cannot be read, as far as that can be known without reading them."""
    seen: set[str] = set()
    for action in plan.actions:
        for change in action.changes:
            reference = change.after.get("secret") if isinstance(change.after, dict) else None
            if not isinstance(reference, dict):
                continue
            problem = _problem_of(reference, sources)
            if (
                problem
                and (message := f"{action.title} `{change.path}`: {problem} ({action.reason})") not in seen
            ):
                seen.add(message)
                yield Refusal("secret", message)


def unset_variables(plan: Plan, sources: SecretSources) -> Iterator[str]:
    """Variables that the plan's secrets are read from, which are allowed and not set here; each once.

    They are no reason to refuse a plan, which may be made where no secrets are.
    """
    names = {
        str(change.after["secret"].get("from_env") or ""): f"{action.title} `{change.path}`"
        for action in reversed(plan.actions)
        for change in reversed(action.changes)
        if isinstance(change.after, dict) and isinstance(change.after.get("secret"), dict)
    }
    for name, first in sorted(names.items()):
        if name and not sources.environment.problem_of(name) and not os.environ.get(name):
            yield f"the environment variable `{name}` is not set here, and `apply` reads it for {first}"


def _problem_of(reference: Mapping[str, object], sources: SecretSources) -> str:
    if name := str(reference.get("from_env") or ""):
        return sources.environment.problem_of(name)
    try:
        _holder(str(reference.get("from_file", "")), sources)
    except FileRefused as refused:
        way_out = "; to read it from there, name its directory with `--secrets-from`"
        return f"the secret's file {refused}" + (way_out if refused.code == "outside" else "")
    return ""


def reveal(value: object) -> str:
    """For the JSON encoder: the text of a secret. Raises TypeError for any other type."""
    if isinstance(value, SecretValue):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
