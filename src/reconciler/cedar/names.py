"""Entity names as Cedar writes them: `Group::"contractors"`."""

from typing import NamedTuple

from .tokens import tokens_of, unescape


class EntityName(NamedTuple):
    """An entity by its type and id."""

    type: str
    id: str

    def __str__(self) -> str:
        escaped = self.id.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.type}::"{escaped}"'


def parse_name(text: str) -> EntityName | None:
    """The name that a text is, written as in a policy; None when it is something else."""
    match tokens_of(text):
        case [("name", type_, _), ("sign", "::", _), ("string", literal, _), ("end", _, _)]:
            id_ = unescape(literal)
            return None if id_ is None else EntityName(type_, id_)
    return None
