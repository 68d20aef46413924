"""References to a client, which is an application or a user agent."""

from dataclasses import dataclass

from sqlalchemy import CheckConstraint, ColumnElement, Table


@dataclass(frozen=True, slots=True)
class ClientRef:
    """An application, or a user agent, by its id; exactly one of the two is set."""

    application_id: str | None = None
    user_agent_id: str | None = None

    @property
    def id(self) -> str:
        """The id that is set."""
        return self.application_id or self.user_agent_id or ""

    @property
    def columns(self) -> dict[str, str | None]:
        """The values of the two columns."""
        return {"application_id": self.application_id, "user_agent_id": self.user_agent_id}

    def owns(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row is this party's."""
        if self.application_id is not None:
            return table.c.application_id == self.application_id
        return table.c.user_agent_id == self.user_agent_id


def one_party(table: str) -> CheckConstraint:
    """The constraint that a row has exactly one party."""
    return CheckConstraint("(application_id IS NULL) <> (user_agent_id IS NULL)", name=f"{table}_party_check")
