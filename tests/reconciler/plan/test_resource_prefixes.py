"""Addresses that belong to a prefix resource, before and after a plan, and exempt resources below one."""

from collections.abc import Mapping

import pytest

from reconciler.plan.resource_prefixes import exempt_from_prefix, reached_by_prefix
from reconciler.plan.zone_state import ZoneObject, ZoneState

API, BOOKS = "https://api.example", "https://api.example/books"
Items = Mapping[str, frozenset[tuple[str, str]]]


def resources(**prefixes: bool) -> ZoneState:
    """A zone with resources: identifier -> whether it is a prefix."""
    return ZoneState(
        {
            f"id of {identifier}": ZoneObject("Resource", identifier, {"prefix": prefix})
            for identifier, prefix in prefixes.items()
        }
    )


def reached(identifier: str, *addresses: str) -> Items:
    """That these addresses mean a resource."""
    return {identifier: frozenset(("", each) for each in addresses)}


class TestReached:
    def test_a_resource_beneath_a_prefix_takes_its_address_from_it(self) -> None:
        """Before, a request for it meant the prefix; now it means the resource."""
        before, after = reached_by_prefix(resources(**{API: True}), resources(**{API: True, BOOKS: False}))
        assert (before, after) == (reached(API, BOOKS), {})

    def test_a_resource_that_goes_gives_its_address_back(self) -> None:
        """The same the other way round."""
        before, after = reached_by_prefix(resources(**{API: True, BOOKS: False}), resources(**{API: True}))
        assert (before, after) == ({}, reached(API, BOOKS))

    def test_a_new_prefix_is_reached_by_all_beneath(self) -> None:
        """`/*` stands for every address beneath."""
        before, after = reached_by_prefix(resources(**{API: False}), resources(**{API: True}))
        assert (before, after) == ({}, reached(API, f"{API}/*"))

    def test_the_longest_prefix_has_an_address(self) -> None:
        """A prefix beneath a prefix takes all beneath it."""
        before, after = reached_by_prefix(resources(**{API: True}), resources(**{API: True, BOOKS: True}))
        assert before == reached(API, BOOKS, f"{BOOKS}/*")
        assert after == reached(BOOKS, f"{BOOKS}/*")

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (resources(), resources(**{API: False})),
            (resources(**{API: True}), resources(**{API: True})),
            (resources(**{API: False}), resources(**{API: False, BOOKS: False})),
        ],
        ids=["no prefix", "nothing changes", "none is a prefix"],
    )
    def test_where_no_prefix_is_concerned_nothing_is_worked_out(
        self, before: ZoneState, after: ZoneState
    ) -> None:
        """Most plans."""
        assert reached_by_prefix(before, after) == ({}, {})

    @pytest.mark.parametrize(
        ("prefix", "address", "beneath"),
        [
            (API, f"{API}/books", True),
            (API, f"{API}?tenant=a", True),
            (API, f"{API}/a/b/c", True),
            (f"{API}/", f"{API}/books", True),
            ("HTTPS://API.Example", f"{API}/books", True),
            (f"{API}:443", f"{API}/books", True),
            (API, "https://API.example:443/books", True),
            ("http://api.example:80", "http://api.example/books", True),
            (f"{API}:8443", f"{API}/books", False),
            (API, "http://api.example/books", False),
            (API, f"{API}.evil.example/books", False),
            (BOOKS, f"{API}/bookshop", False),
            (API, "urn:books", False),
            ("urn:books", "urn:books:1", False),
        ],
    )
    def test_beneath_is_compared_as_the_server_does(self, prefix: str, address: str, beneath: bool) -> None:
        """By scheme, host, port and whole segments; what is no URL has nothing beneath it."""
        before, _ = reached_by_prefix(
            resources(**{prefix: True}), resources(**{prefix: True, address: False})
        )
        assert before == (reached(prefix, address) if beneath else {})


class TestExempt:
    def test_what_was_there_beneath_a_new_prefix_stays_its_own(self) -> None:
        """What policies say of the prefix does not hold for it."""
        before = resources(**{API: False, BOOKS: False})
        assert list(exempt_from_prefix(before, resources(**{API: True, BOOKS: False}))) == [
            (API, [f"id of {BOOKS}"])
        ]

    def test_a_prefix_that_is_created_has_exempt_ones_too(self) -> None:
        """It need not have been a resource before."""
        assert list(
            exempt_from_prefix(resources(**{BOOKS: False}), resources(**{API: True, BOOKS: False}))
        ) == [(API, [f"id of {BOOKS}"])]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (resources(**{API: True, BOOKS: False}), resources(**{API: True, BOOKS: False})),
            (resources(**{API: False}), resources(**{API: True, BOOKS: False})),
            (resources(**{API: False, BOOKS: False}), resources(**{API: True})),
            (resources(**{API: True, BOOKS: False}), resources(**{API: False, BOOKS: False})),
            (resources(**{API: False}), resources(**{API: True})),
        ],
        ids=["a prefix before", "made together", "gone", "a prefix no longer", "itself alone"],
    )
    def test_nothing_else_is(self, before: ZoneState, after: ZoneState) -> None:
        """Only what stood beneath what becomes a prefix, and still does."""
        assert list(exempt_from_prefix(before, after)) == []

    def test_what_is_beneath_a_longer_prefix_is_that_ones(self) -> None:
        """The nearest prefix around it counts, and that one is not new."""
        deep = f"{BOOKS}/old"
        before = resources(**{API: False, BOOKS: True, deep: False})
        after = resources(**{API: True, BOOKS: True, deep: False})
        assert list(exempt_from_prefix(before, after)) == [(API, [f"id of {BOOKS}"])]
