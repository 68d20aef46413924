"""The names by which an entry of the revocation list knows a token: the one place that has these claims.

The zone asks of each, when it is shown a token, whether that has been revoked under it, and waits with a new
token while it could not be told from a revoked one. So the zone and its published list say the same.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Name = tuple[str, str]  # of one claim: its name and its value; of several: their names, and a JSON array


def name_of(claims: Mapping[str, str]) -> Name:
    """The claims of an entry as one name."""
    names = sorted(claims)
    values = [claims[each] for each in names]
    return " ".join(names), values[0] if len(values) == 1 else json.dumps(values)


class TokenNames(NamedTuple):
    """The names of one access token.

    Attributes:
        audience: None for the zone itself, which never goes.
        actors: everybody in the chain, as `sub` of their level has it.
        own: the `sub` of an application that the token itself is about; None where that is a user.
    """

    client_id: str
    audience: str | None
    actors: tuple[str, ...] = ()
    own: str | None = None

    def in_session(self) -> Iterator[Name]:
        """Those that an entry may have beside `sid`: what a user takes back."""
        yield "client_id", self.client_id
        if self.audience is not None:
            yield "aud", self.audience
        for actor in self.actors:
            yield "actor", actor

    def in_zone(self) -> Iterator[Name]:
        """Those that an entry may have alone: what goes for everybody."""
        yield from self.in_session()
        if self.own is not None:
            yield name_of({"client_id": self.client_id, "sub": self.own})
