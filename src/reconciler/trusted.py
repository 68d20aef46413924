"""What this user allows to configurations: the counterpart of `zonectl.yaml` outside every repository."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.apply import AllowedNames, PatternWrong
from reconciler.client.known_servers import state_directory
from reconciler.files import Root, read_private
from reconciler.manifests.diagnostics import suggest
from reconciler.manifests.sources import SETTINGS_FILE
from reconciler.manifests.yaml_reader import YamlProblem, read_documents

_MEMBER = "allow_env"


class TrustedWrong(ValueError):
    """The file, or the option, is not as it should be."""


def trusted_file(outside: Root) -> Path | None:
    """`zonectl.yaml` beside the record of known servers; None when that would lie in the repository."""
    directory = state_directory()
    return None if directory is None or directory in outside else directory / SETTINGS_FILE


def allowed_names(option: Sequence[str], outside: Root) -> AllowedNames:
    """The environment variables that `--allow-env` and this user's own file let manifests read.

    Raises:
        TrustedWrong: one of them is not as it should be, or other users can write to the file.
    """
    file = trusted_file(outside)
    listed = _listed(file) if file is not None else []
    try:
        AllowedNames.of(option)
    except PatternWrong as error:
        raise TrustedWrong(f"`--allow-env`: {error}") from error
    try:
        return AllowedNames.of([*option, *listed], str(file or ""))
    except PatternWrong as error:
        raise TrustedWrong(f"{file}: `{_MEMBER}`: {error}") from error


def _listed(file: Path) -> list[str]:
    try:
        documents = read_documents(read_private(file).decode("utf-8-sig"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrustedWrong(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrustedWrong(f"{file}: is not UTF-8 at byte {error.start}") from error
    except YamlProblem as problem:
        raise TrustedWrong(
            f"{file}:{problem.span.line + 1}:{problem.span.column + 1}: {problem.message}"
        ) from problem
    settings = documents[0].value if documents else {}
    if len(documents) > 1 or not isinstance(settings, dict):
        raise TrustedWrong(f"{file}: expected one mapping with `{_MEMBER}`")
    for name in settings:
        if name != _MEMBER:
            raise TrustedWrong(f"{file}: unknown member `{name}`{suggest(name, [_MEMBER])}")
    names = settings.get(_MEMBER) or []
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise TrustedWrong(f"{file}: `{_MEMBER}` must be a list of names, as in `[OKTA_SECRET, IDP_*]`")
    return names
