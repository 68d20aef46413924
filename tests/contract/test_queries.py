"""Query parameters of lists: derived from a kind's `Listing`, or declared in it."""

import pytest

from runtime.contract.queries import list_query, retrieve_query
from runtime.domain import kinds
from runtime.domain.kinds import Kind
from runtime.domain.kinds.queries import Query


def query_of(kind: Kind, name: str) -> Query:
    """The parameter of that name of a kind's list."""
    return next(query for query in list_query(kind) if query.name == name)


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (kinds.RESOURCE, "filter[owner_type]", ("platform", "customer")),
        (kinds.PROVIDER, "filter[type]", ("external", "service-vault", "service-sts")),
        (kinds.PROVIDER, "type", ("external", "service-vault", "service-sts")),
        (kinds.ORGANIZATION_USER, "role", ("org_admin", "org_member", "org_viewer")),
        (kinds.APPLICATION, "filter[identifier]", ()),
    ],
)
def test_a_filter_takes_the_values_of_its_member_s_enumeration(
    kind: Kind, name: str, values: tuple[str, ...]
) -> None:
    """A filter on a member of an enumeration is limited to its values; any other takes every text."""
    assert query_of(kind, name).values == values


def test_a_filter_on_a_truth_value_is_a_boolean_and_given_once() -> None:
    """`external` is true or false, so repeated values would select everything."""
    found = query_of(kinds.USER, "filter[external]")

    assert (found.type, found.many) == ("boolean", False)


@pytest.mark.parametrize(
    ("name", "present"), [("active", "filter[active]"), ("filter[scope_type]", "filter[target_type]")]
)
def test_an_older_name_says_which_parameter_it_stands_for(name: str, present: str) -> None:
    """Older names are deprecated, and the parameter that they stand for is one of the same list."""
    found = query_of(kinds.POLICY_SET, name)

    assert found.deprecated
    assert query_of(kinds.POLICY_SET, found.older_form_of).name == present


def test_a_kind_that_cannot_be_listed_has_no_query() -> None:
    """Secrets are listed by hand: no parameter follows from the kind."""
    assert list_query(kinds.SECRET) == ()
    assert retrieve_query(kinds.SECRET) == ()


def test_retrieving_one_counts_nothing() -> None:
    """`total_count` belongs to a list; what retrieving expands stands in the kind."""
    expand = next(query for query in retrieve_query(kinds.ZONE) if query.name == "expand[]")

    assert expand.values == ("permissions",)


def test_parameters_of_retrieving_stand_in_the_kind() -> None:
    """A policy version is retrieved in either notation of Cedar."""
    assert [query.name for query in retrieve_query(kinds.POLICY_VERSION)] == ["format", "expand[]"]
