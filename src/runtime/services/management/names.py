"""Finds the object of a zone that people mean by a name: its id, its identifier, or its name in git."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, USER, Entity, Kind
from runtime.domain.kinds.application import TokenCredential
from runtime.storage.sql import entities as storage
from runtime.storage.sql import ownership, similar_names
from runtime.storage.sql.filters import Equals

E = TypeVar("E", bound=Entity)
MayList = Callable[[Kind], bool]
_MOST = 10  # objects that are told apart in an answer


class Candidate(NamedTuple, Generic[E]):
    """An object that a name may mean.

    Attributes:
        owner: in whose manifests it has that name; None where it has it by itself.
    """

    entity: E
    owner: str | None = None

    def described(self, name: str) -> str:
        """Its identifier and its id, and where the name comes from, to tell it from others of that name."""
        identifier = getattr(self.entity, "identifier", name)
        of = f", `{name}` in the manifests of `{self.owner}`" if self.owner is not None else ""
        return f"`{identifier}` (id `{self.entity.id}`{of})"


class UnresolvedName(Exception):
    """A name that nothing in the zone has, or several objects. The text says which."""

    def __init__(self, text: str, *, is_of_several: bool) -> None:
        super().__init__(text)
        self.text, self.is_of_several = text, is_of_several


async def find(
    conn: AsyncConnection,
    kind: Kind[E],
    name: str,
    *,
    zone_id: str,
    may_list: MayList,
    covering: E | None = None,
) -> E:
    """The object of a zone that a person means by a name: of that id, else the only one that is called so.

    That is by its identifier, by the name of its manifest, and for users by e-mail address. An application
    that nothing else means is found by its client id.

    Args:
        may_list: whether the person may list objects of a kind, and be told of similar names.
        covering: an object that has the name in another spelling.
    Raises: UnresolvedName.
    """
    within = {"zone_id": zone_id}
    if (exact := await storage.find_by(conn, kind, "id", name, within=within)) is not None:
        return exact
    found = await _called(conn, kind, name, within)
    if covering is not None:
        found.setdefault(covering.id, Candidate(covering))
    if len(found) == 1:
        return next(iter(found.values())).entity
    if found:
        raise UnresolvedName(_ambiguity(name, list(found.values())), is_of_several=True)
    if kind is APPLICATION and (client := await _application_of(conn, name, within)) is not None:
        return cast(E, client)
    nothing = f"there is no {kind.name.lower()} `{name}` in the zone"
    similar = await _similar(conn, kind, name, zone_id, may_list)
    meant = f"; did you mean `{similar}`?" if similar is not None else ""
    raise UnresolvedName(f"{nothing}{meant}", is_of_several=False)


async def _application_of(conn: AsyncConnection, client_id: str, within: Mapping[str, str]) -> Entity | None:
    """The application that authenticates itself with that client id."""
    same = [Equals("identifier", (client_id,))]
    page = await storage.page(conn, APPLICATION_CREDENTIAL, within=within, where=same, limit=_MOST)
    ids = {each.application_id for each in page.items if not isinstance(each, TokenCredential)}
    if len(ids) != 1:
        return None
    return await storage.find_by(conn, APPLICATION, "id", ids.pop(), within=within)


async def _similar(
    conn: AsyncConnection, kind: Kind, name: str, zone_id: str, may_list: MayList
) -> str | None:
    """A name like that one, of what may be listed: for an application its client id, too."""
    kinds = (APPLICATION, APPLICATION_CREDENTIAL) if kind is APPLICATION else (kind,)
    return await similar_names.most_similar(conn, filter(may_list, kinds), name, zone_id=zone_id)


async def _called(
    conn: AsyncConnection, kind: Kind[E], name: str, within: Mapping[str, str]
) -> dict[str, Candidate[E]]:
    """The objects that are called so, by id; one more than can be told apart."""
    found: dict[str, Candidate[E]] = {}
    for member in ("identifier", "email") if kind is USER else ("identifier",):
        same = [Equals(member, (name,))]
        page = await storage.page(conn, kind, within=within, where=same, limit=_MOST + 1)
        found |= {each.id: Candidate(each) for each in page.items}
    if kind.manifest:
        owners = await ownership.named(conn, within["zone_id"], kind, name, limit=_MOST)
        unseen = [each for each in owners if each not in found]
        for entity in await storage.many(conn, kind, unseen, within=within):
            found[entity.id] = Candidate(entity, owners[entity.id])
    return found


def _ambiguity(name: str, found: Sequence[Candidate[Any]]) -> str:
    told = [each.described(name) for each in found[:_MOST]]
    more = ", or others" if len(found) > _MOST else ""
    return f"`{name}` may be {' or '.join(told)}{more}"
