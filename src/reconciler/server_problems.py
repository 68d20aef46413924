"""Problems that the server reports for a plan, mapped back to the manifests."""

from dataclasses import dataclass, replace

from reconciler.manifests import Diagnostic
from reconciler.output_documents import ProblemDocument


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A problem that the server reports for an operation, with the manifest it came from.

    Attributes:
        reason: `file:line` of the manifest, or the reason of an action without one.
        title: the object; empty when the problem is not one of an object.
        diagnostic: the place of the member in its manifest, with its line, where that is known.
    """

    reason: str
    title: str
    field: str
    message: str
    code: str = "error"
    diagnostic: Diagnostic | None = None

    @property
    def description(self) -> str:
        """The object, the member and the message, without the place."""
        about = " ".join(each for each in (self.title, f"`{self.field}`" if self.field else "") if each)
        return ": ".join(each for each in (about, self.message) if each)

    def __str__(self) -> str:
        return ": ".join(each for each in (self.reason, self.description) if each)

    def as_json(self) -> ProblemDocument:
        """The problem as a JSON object."""
        found: ProblemDocument = {"code": self.code, "message": self.message}
        if self.diagnostic is not None:
            found["path"], found["line"] = self.diagnostic.path, self.diagnostic.line
            found["column"] = self.diagnostic.column
        if self.title:
            found["object"] = self.title
        if self.field:
            found["field"] = self.field
        return found


@dataclass(frozen=True, slots=True)
class ServerRejection:
    """The server's rejection of a plan. `stale`: the server has changed since the plan was made."""

    message: str
    problems: tuple[ServerProblem, ...]
    stale: bool

    @property
    def listed(self) -> tuple[ServerProblem, ...]:
        """The problems as listed below the message: for a stale plan, what changed.

        The message of a stale plan names the object, and includes the problem if there is only one.
        """
        if not self.stale:
            return self.problems
        problems = tuple(replace(each, title="", field="", diagnostic=None) for each in self.problems)
        return problems if len(problems) > 1 else ()
