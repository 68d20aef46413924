"""The exit codes of `zonectl`, and the exception that carries one."""

from collections.abc import Mapping, Sequence

from reconciler.output_documents import ERROR, ErrorDocument, ProblemDocument
from reconciler.terminal import Line, plain

FAILED, CHANGES, DRIFT, STALE, REFUSED, USAGE, INTERRUPTED = 1, 2, 3, 4, 5, 64, 130


class CommandFailed(Exception):
    """A command ends with this exit code; *lines* go to standard error.

    Attributes:
        document: what `--output json` prints in place of an error; empty when the result was printed already.
    """

    def __init__(
        self, exit_code: int, *lines: Line, document: Mapping[str, object] | ErrorDocument | None = None
    ) -> None:
        super().__init__(*lines)
        self.exit_code, self.lines = exit_code, lines
        self.document = error_document(exit_code, *lines) if document is None else document


class Declined(CommandFailed):
    """The user answered no: nothing was changed, which is no error."""

    def __init__(self) -> None:
        super().__init__(FAILED, "nothing was changed")


def error_document(
    exit_code: int, *lines: Line, problems: Sequence[ProblemDocument] | None = None
) -> ErrorDocument:
    """A command's end as JSON: what went wrong, and one problem for each further line."""
    message, *rest = [plain(line).strip() for line in lines] or [""]
    further: Sequence[ProblemDocument] = [{"code": "error", "message": each} for each in rest]
    return {
        "format": ERROR,
        "exit_code": exit_code,
        "message": message,
        "problems": further if problems is None else problems,
    }
