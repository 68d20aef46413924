"""What the product has to reach, measured by `make bench`: the least, and what is aimed at.

Requests a second are of a machine with two cores, of which the load generator has one; machines differ
threefold. So what counts is the ratio to something else in the same run: to an empty route that Sanic serves
alone, with nothing of the service in it; to another authorization server, which has everything in memory and
grants a token for less; and to the same without what may slow it down.
"""

from dataclasses import dataclass

EMPTY = "an empty route"
METADATA, INTROSPECTION, SIGN_IN = "metadata", "introspection", "sign-in, our legs"
WARM, COLD_ES256, COLD_RS256 = "exchange, warm", "exchange, cold, ES256", "exchange, cold, RS256"
LIST = "list of 100 applications"
WRITES_SQLITE, WRITES = (f"exchange, warm, 5 writes/s, {each}" for each in ("SQLite", "PostgreSQL + Redis"))
IMPACT = "impact of a policy change"
NO_WRITES = "the same without writes"
_SIZE, _RECORDS = 10_000, 100_000
PEER_ES256, PEER_RS256 = "node-oidc-provider, ES256", "node-oidc-provider, RS256"


@dataclass(frozen=True)
class Floor:
    """What a scenario has to reach.

    Attributes:
        scenario: its name; or that of a row of another part, which says itself what share it is.
        beside: the scenario whose rate it is a share of; empty for what is done in a second.
        of: what is counted: requests, or the objects of a configuration.
    """

    scenario: str
    floor: float
    aim: float
    beside: str = ""
    of: str = "requests"


def _objects(what: str, at_most: float, aim: float) -> Floor:
    """How many objects of 10,000 a second a command of `zonectl` does that takes at most so many seconds."""
    return Floor(what, _SIZE / at_most, _SIZE / aim, of="objects")


def _records(what: str, at_most: float, aim: float) -> Floor:
    """How many of 100,000 recorded decisions a second a plan replays that takes at most so many seconds."""
    return Floor(what, _RECORDS / at_most, _RECORDS / aim, of="decisions")


FLOORS = (
    Floor(WARM, 4_000, 8_000),
    Floor(COLD_ES256, 1_800, 4_000),
    Floor(COLD_RS256, 1_200, 2_500),
    Floor(INTROSPECTION, 4_000, 8_000),
    Floor(METADATA, 12_000, 20_000),
    Floor(SIGN_IN, 300, 600),
    Floor(SIGN_IN, 0.03, 0.06, EMPTY),
    Floor(LIST, 0.02, 0.04, EMPTY),
    Floor(WRITES_SQLITE, 0.9, 1, NO_WRITES),
    Floor(WRITES, 0.9, 1, NO_WRITES),
    Floor(WARM, 1.6, 2.5, PEER_ES256),
    Floor(COLD_ES256, 1.1, 1.5, PEER_ES256),
    Floor(COLD_RS256, 1.0, 1.3, PEER_RS256),
    _objects("validate, cold, 10,000 manifests", 3, 1),
    _objects("validate, warm, 10,000 manifests", 0.8, 0.3),
    _objects("plan, nothing changed, cold, 10,000", 4, 2),
    _objects("plan, nothing changed, warm, 10,000", 1.5, 0.6),
    _objects("apply, 10,000 creates", 30, 8),
    *(_records(f"{IMPACT} by groups, {storage}", 5, 1) for storage in ("SQLite", "PostgreSQL + Redis")),
)
