"""Lists: pages, cursors, filters, sorting, and what tampering with them gives."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id


def _long_ago() -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def filled(api: Api) -> Zone:
    """A zone with seven applications, named a to g."""
    zone = api.zone()
    for letter in "gbdafce":
        zone.make("applications", identifier=f"id-{letter}", name=f"App {letter.upper()}")
    return zone


@pytest.fixture(scope="module")
def namesakes(api: Api) -> Zone:
    """A zone with five applications, a to e, some of which have the same name."""
    zone = api.zone()
    for identifier, name in (("x-a", "B"), ("x-b", "A"), ("x-c", "B"), ("x-d", "A"), ("x-e", "C")):
        zone.make("applications", identifier=identifier, name=name)
    return zone


def names(api: Api, path: str) -> list[str]:
    return [one["identifier"][-1] for one in api.ok("GET", path)["items"]]


Page = dict[str, Any]


@pytest.fixture(scope="module")
def three_pages(api: Api, filled: Zone) -> list[Page]:
    """The applications by their identifiers, three at a time, from the first page to the last."""
    path = filled.path("/applications?limit=3&sort=identifier")
    pages = [api.ok("GET", path)]
    while cursor := pages[-1]["pagination"]["after_cursor"]:
        pages.append(api.ok("GET", f"{path}&after={cursor}"))
    return pages


class TestPages:
    def test_following_after_gives_every_entry_once(self, api: Api, three_pages: list[Page]) -> None:
        """Pages do not overlap, and leave nothing out."""
        assert [[one["identifier"] for one in page["items"]] for page in three_pages] == [
            ["id-a", "id-b", "id-c"],
            ["id-d", "id-e", "id-f"],
            ["id-g"],
        ]

    def test_the_first_page_has_nothing_before_it(self, three_pages: list[Page]) -> None:
        """No cursor backwards, and `page_info` says so."""
        first = three_pages[0]
        assert first["pagination"]["before_cursor"] is None
        assert first["page_info"]["has_next_page"] is True
        assert first["page_info"]["has_previous_page"] is False

    def test_the_last_page_has_nothing_after_it(self, three_pages: list[Page]) -> None:
        """No cursor forwards, while `end_cursor` is told of every page that has entries."""
        last = three_pages[-1]
        assert last["pagination"]["after_cursor"] is None
        assert last["page_info"]["end_cursor"]

    def test_going_back_shows_the_page_that_was_seen(
        self, api: Api, filled: Zone, three_pages: list[Page]
    ) -> None:
        """`before` gives the same entries in the same order, and a cursor forwards again."""
        _, second, third = three_pages
        cursor = third["pagination"]["before_cursor"]
        back = api.ok("GET", filled.path(f"/applications?limit=3&sort=identifier&before={cursor}"))
        assert back["items"] == second["items"]
        assert back["pagination"]["after_cursor"]

    def test_cursor_means_after(self, api: Api, filled: Zone, three_pages: list[Page]) -> None:
        """The older name of the parameter gives the same page."""
        cursor = three_pages[1]["pagination"]["after_cursor"]
        page = api.ok("GET", filled.path(f"/applications?limit=3&sort=identifier&cursor={cursor}"))
        assert page["items"] == three_pages[2]["items"]

    @pytest.mark.deviation("total-count")
    def test_all_matches_are_counted_whatever_the_page(self, api: Api, filled: Zone) -> None:
        """All matches are counted when it is asked, whatever the page."""
        page = api.ok("GET", filled.path("/applications?limit=1&query[name]=app&expand[]=total_count"))
        assert page["pagination"]["total_count"] == 7
        assert "total_count" not in api.ok("GET", filled.path("/applications"))["pagination"]

    def test_default_limit_is_fifty(self, api: Api) -> None:
        """Without a limit a page has fifty entries."""
        zone = api.zone()
        for _ in range(51):
            zone.make("roles")
        assert len(api.ok("GET", zone.path("/roles?filter[owner_type]=customer"))["items"]) == 50

    def test_an_empty_list_has_no_cursors(self, api: Api, filled: Zone) -> None:
        """Null, never an empty string."""
        page = api.ok("GET", filled.path("/applications?identifier=none"))
        assert page == {
            "items": [],
            "pagination": {"after_cursor": None, "before_cursor": None},
            "page_info": {
                "has_next_page": False,
                "has_previous_page": False,
                "start_cursor": None,
                "end_cursor": None,
            },
        }

    def test_long_values_page_too(self, api: Api) -> None:
        """Cursors stay within 255 characters however long what is sorted by."""
        zone = api.zone()
        long = [f"{letter}{'é' * 1000}" for letter in "abc"]
        for identifier in long:
            zone.make("applications", identifier=identifier)
        page = api.ok("GET", zone.path("/applications?limit=1&sort=identifier"))
        cursor = page["pagination"]["after_cursor"]
        assert len(cursor) <= 255
        following = api.ok("GET", zone.path(f"/applications?limit=1&sort=identifier&after={cursor}"))
        assert following["items"][0]["identifier"] == long[1]
        api.ok("DELETE", zone.path(f"/applications/{page['items'][0]['id']}"))
        api.refused(400, "GET", zone.path(f"/applications?limit=1&sort=identifier&after={cursor}"))

    def test_organization_pages(self, api: Api) -> None:
        """Lists under an organization have the other envelope."""
        base = f"/organizations/{api.organization_id}/service-accounts"
        for _ in range(2):
            api.ok("POST", base, {"name": api.named("page")})
        page = api.ok("GET", f"{base}?limit=1&expand=permissions")
        assert set(page) == {"items", "page_info", "permissions"}
        assert page["page_info"]["has_next_page"] is True
        following = api.ok("GET", f"{base}?limit=1&after={page['page_info']['end_cursor']}")
        assert following["page_info"]["has_prev_page"] is True
        assert following["items"] != page["items"]


class TestFilters:
    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ("", "gbdafce"),
            ("?sort=-created_at", "ecfadbg"),
            ("?sort=name", "abcdefg"),
            ("?sort=-identifier", "gfedcba"),
            ("?sort=name,-identifier", "abcdefg"),
        ],
    )
    def test_a_list_is_sorted_by_the_members_named(
        self, api: Api, filled: Zone, sort: str, expected: str
    ) -> None:
        """Forwards, or backwards with a minus; by age when nothing is said."""
        assert names(api, filled.path(f"/applications{sort}")) == list(expected)

    @pytest.mark.parametrize("sort", ["slug", "", "name,nope", "--name", "name,", "name,name"])
    def test_a_list_is_sorted_only_by_allowed_members(self, api: Api, filled: Zone, sort: str) -> None:
        """Another member, none, and the same one twice are 400."""
        api.refused(400, "GET", filled.path(f"/applications?sort={sort}"))

    @pytest.mark.parametrize(
        ("sort", "expected"), [("name,-identifier", "dbcae"), ("-name,identifier", "eacbd")]
    )
    def test_each_member_of_a_sorting_has_its_own_direction(
        self, api: Api, namesakes: Zone, sort: str, expected: str
    ) -> None:
        """The second member decides among entries that agree in the first."""
        assert names(api, namesakes.path(f"/applications?sort={sort}")) == list(expected)

    def test_pages_follow_a_sorting_by_several_both_ways(self, api: Api, namesakes: Zone) -> None:
        """Forwards to the end, and from there back."""
        path = namesakes.path("/applications?sort=name,-identifier")
        walked, page = [], api.ok("GET", f"{path}&limit=2")
        while True:
            walked += [one["identifier"][-1] for one in page["items"]]
            cursor = page["pagination"]["after_cursor"]
            if cursor is None:
                break
            page = api.ok("GET", f"{path}&limit=2&after={cursor}")
        assert walked == list("dbcae")
        back = api.ok("GET", f"{path}&limit=2&before={page['pagination']['before_cursor']}")
        assert [one["identifier"][-1] for one in back["items"]] == ["c", "a"]

    @pytest.mark.parametrize(
        ("sort", "expected"), [("authenticated_at,-email", "cab"), ("-authenticated_at,email", "bac")]
    )
    def test_pages_follow_a_sorting_with_missing_values(self, api: Api, sort: str, expected: str) -> None:
        """Who has never signed in comes last, and first backwards."""
        zone = api.zone()
        zone.user("a@example.com", authenticated_at=_long_ago())
        zone.user("b@example.com")
        zone.user("c@example.com", authenticated_at=_long_ago())
        found, cursor = "", ""
        for _ in expected:
            page = api.ok("GET", zone.path(f"/users?sort={sort}&limit=1{cursor}"))
            found += page["items"][0]["email"][0]
            cursor = f"&after={page['pagination']['after_cursor']}"
        assert found == expected

    def test_unknown_ids_are_left_out(self, api: Api, filled: Zone) -> None:
        """Unknown ids are left out; as many as are asked come on one page; no cursor beside them."""
        ids = [one["id"] for one in api.ok("GET", filled.path("/applications"))["items"]]
        asked = "&".join(f"filter[id]={one}" for one in [*ids, new_id()])
        assert len(api.ok("GET", filled.path(f"/applications?{asked}"))["items"]) == 7
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        api.refused(400, "GET", filled.path(f"/applications?{asked}&after={cursor}"))
        too_many = "&".join(f"filter[id]={n}" for n in range(101))
        api.refused(400, "GET", filled.path(f"/applications?{too_many}"))

    def test_repeated_values_of_a_filter_mean_or(self, api: Api, filled: Zone) -> None:
        """Repeated values are or; the older name means the same and must not disagree."""
        assert names(api, filled.path("/applications?filter[identifier]=id-a&filter[identifier]=id-b")) == [
            "b",
            "a",
        ]
        assert names(api, filled.path("/applications?identifier=id-c")) == ["c"]
        assert names(api, filled.path("/applications?slug=app-d")) == ["d"]
        api.refused(400, "GET", filled.path("/applications?identifier=id-a&filter[identifier]=id-b"))

    def test_a_search_finds_part_of_a_value_in_any_case(self, api: Api, filled: Zone) -> None:
        """Part of a value, in any case; repeated values are or; the plain search looks everywhere."""
        assert names(api, filled.path("/applications?query[name]=app%20A")) == ["a"]
        assert names(api, filled.path("/applications?query[name]=app%20a&query[name]=APP%20B")) == ["b", "a"]
        assert names(api, filled.path("/applications?query[]=id-e")) == ["e"]
        assert names(api, filled.path("/applications?query=APP%20F")) == ["f"]

    def test_traits_select_by_any_or_all(self, api: Api) -> None:
        """Any of, all of, and of the application that provides a resource."""
        zone = api.zone()
        both = zone.make("applications", identifier="x-b", traits=["gateway", "mcp-server"])
        one = zone.make("applications", identifier="x-o", traits=["mcp-server"])
        zone.make("applications", identifier="x-n")
        assert names(api, zone.path("/applications?traits=gateway&traits=mcp-server")) == ["b", "o"]
        assert names(api, zone.path("/applications?traits[all]=gateway&traits[all]=mcp-server")) == ["b"]
        api.refused(400, "GET", zone.path("/applications?traits=nonsense"))
        for application in (both, one):
            zone.make(
                "resources", application_id=application["id"], identifier=f"urn:{application['identifier']}"
            )
        assert names(api, zone.path("/resources?filter[traits]=gateway,mcp-server")) == ["b"]
        assert names(api, zone.path("/resources?filter[traits]=gateway&filter[traits]=mcp-server")) == [
            "b",
            "o",
        ]

    @pytest.mark.parametrize(
        "path",
        [
            "/applications?filter[nmae]=x",
            "/applications?query[consent]=x",
            "/providers?filter[type]=other",
            "/resources?filter[owner_type]=nobody",
        ],
    )
    def test_unknown_selections_are_refused(self, api: Api, filled: Zone, path: str) -> None:
        """A filter or a value that does not exist would show more than was asked for."""
        api.refused(400, "GET", filled.path(path))

    def test_unknown_parameters_are_refused(self, api: Api, filled: Zone) -> None:
        """A misspelt name selects nothing, so the list would show more than was asked for."""
        assert len(names(api, filled.path("/applications?identifier=id-a"))) == 1
        refusal = api.refused(400, "GET", filled.path("/applications?identifer=id-a"))
        assert refusal["details"][0]["message"] == "is not a parameter of this request"

    def test_unknown_values_of_expand_are_ignored(self, api: Api, filled: Zone) -> None:
        """They leave the list as it is: a newer client may ask an older server."""
        assert len(names(api, filled.path("/applications?expand[]=nothing"))) == 7

    @pytest.mark.parametrize(("chars", "status"), [(0, 400), (1, 200), (255, 200), (256, 400)])
    def test_a_searched_text_has_up_to_255_characters(
        self, api: Api, filled: Zone, chars: int, status: int
    ) -> None:
        """Specification, limits: `query[email]`; other searches follow it."""
        assert api("GET", filled.path(f"/users?query[email]={'x' * chars}")).status_code == status
        identities = f"/organizations/{api.organization_id}/identities"
        assert api("GET", f"{identities}?query[email]={'x' * chars}").status_code == status

    @pytest.mark.parametrize(
        "asked", ["expand=total_count", "expand[]=total_count", "expand=total_count&expand[]=total_count"]
    )
    def test_expand_is_taken_with_and_without_brackets(self, api: Api, filled: Zone, asked: str) -> None:
        """In one spelling, in the other, and in both where they agree."""
        assert api.ok("GET", filled.path(f"/applications?{asked}"))["pagination"]["total_count"] == 7

    def test_expand_with_different_values_in_its_two_spellings_is_refused(
        self, api: Api, filled: Zone
    ) -> None:
        """400, rather than one of the two."""
        api.refused(400, "GET", filled.path("/applications?expand=total_count&expand[]=permissions"))


class TestTampering:
    @pytest.mark.threat("30e", "30j")
    @pytest.mark.parametrize(
        "limit",
        [
            *("0", "101", "abc", "-1", "1.5", "1e1"),
            pytest.param("", id="empty"),
            pytest.param("٣", id="another-digit"),
            pytest.param("9" * 400, id="400-digits"),
        ],
    )
    def test_a_limit_is_from_1_to_100(self, api: Api, filled: Zone, limit: str) -> None:
        """A limit is a whole number from 1 to 100."""
        told = api.refused(400, "GET", filled.path(f"/applications?limit={limit}"))
        assert told["code"] == "validation_error"
        assert told["details"][0]["field"] == "limit"

    @pytest.mark.threat("30a", "30j")
    def test_an_altered_cursor_is_refused(self, api: Api, filled: Zone) -> None:
        """Every character counts: a cursor is changed at one place after another, and refused each time."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        codes = set()
        for place in range(0, len(cursor) - 1, 7):
            changed = "A" if cursor[place] != "A" else "B"
            altered = f"{cursor[:place]}{changed}{cursor[place + 1 :]}"
            codes.add(api.refused(400, "GET", filled.path(f"/applications?after={altered}"))["code"])

        assert codes == {"validation_error"}

    @pytest.mark.threat("30d", "30j")
    @pytest.mark.parametrize("parameter", ["after", "before", "cursor"])
    @pytest.mark.parametrize(
        "cursor",
        [
            pytest.param("", id="empty"),
            pytest.param("x", id="x"),
            pytest.param("a" * 256, id="256-characters"),
            pytest.param("a" * 255, id="255-characters"),
            pytest.param("%00", id="NUL"),
            pytest.param("é", id="not-ASCII"),
            pytest.param("AAAA", id="AAAA"),
            pytest.param("null", id="null"),
        ],
    )
    def test_an_invented_cursor_is_refused(self, api: Api, filled: Zone, cursor: str, parameter: str) -> None:
        """Nobody but the service makes cursors; 1 to 255 characters."""
        told = api.refused(400, "GET", filled.path(f"/applications?{parameter}={cursor}"))
        assert told["code"] == ("bad_request" if cursor == "%00" else "validation_error")

    @pytest.mark.threat("30b", "30j")
    def test_a_cursor_opens_in_its_own_list_with_another_limit(self, api: Api, filled: Zone) -> None:
        """What is shown around a list and how much of it are no part of what a cursor is bound to."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        assert api.ok("GET", filled.path(f"/applications?after={cursor}&expand[]=total_count&limit=2"))

    @pytest.mark.threat("30b", "30j")
    @pytest.mark.parametrize(
        ("where", "asked"),
        [
            pytest.param("filled", "/resources?", id="another-collection"),
            pytest.param("filled", "/applications?sort=name&", id="another-sorting"),
            pytest.param("filled", "/applications?query[name]=x&", id="another-filter"),
            pytest.param("sibling", "/applications?", id="another-zone"),
            pytest.param("foreign", "/applications?", id="another-organization"),
        ],
    )
    def test_a_cursor_of_another_list_is_refused(
        self, api: Api, other: Api, filled: Zone, where: str, asked: str
    ) -> None:
        """A cursor opens in the list it comes from: same route, zone, tenant, filters and sorting."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        caller = other if where == "foreign" else api
        zone = filled if where == "filled" else caller.zone()
        told = caller.refused(400, "GET", zone.path(f"{asked}after={cursor}"))
        assert told["code"] == "validation_error"

    @pytest.mark.threat("30i", "30j")
    @pytest.mark.parametrize("second", ["before", "cursor"])
    def test_two_cursors_at_once_are_refused(self, api: Api, filled: Zone, second: str) -> None:
        """`after` with `before`, and `after` with another value by its older name, are 400."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        value = cursor if second == "before" else "other"
        told = api.refused(400, "GET", filled.path(f"/applications?after={cursor}&{second}={value}"))
        assert told["code"] == "validation_error"

    @pytest.mark.threat("30f", "30g")
    @pytest.mark.parametrize("text", ["%25", "_", "%5C", "'%20or%201=1--", "%22", "a%25b", "%2A", "%27%3B"])
    def test_no_character_is_special_in_a_search(self, api: Api, filled: Zone, text: str) -> None:
        """Wildcards and quotes are text like any other."""
        assert names(api, filled.path(f"/applications?query[name]={text}")) == []
        assert names(api, filled.path(f"/applications?filter[identifier]={text}")) == []

    @pytest.mark.threat("30h", "30j")
    @pytest.mark.parametrize(
        ("parameter", "count", "status"), [("expand[]=x", 600, 400), ("expand[]=secrets", 1000, 413)]
    )
    def test_hundreds_of_parameters_are_refused(
        self, api: Api, filled: Zone, parameter: str, count: int, status: int
    ) -> None:
        """400 for their number; 413 once the query is longer than a server reads."""
        many = "&".join([parameter] * count)
        assert api.refused(status, "GET", filled.path(f"/applications?{many}"))["code"] == "bad_request"

    @pytest.mark.threat("30h", "30j")
    @pytest.mark.parametrize(
        "asked", ["query[name]=%00", "query[name]=%0a", "query[name]=%ff", "filter[identifier]=%00"]
    )
    def test_control_characters_and_bytes_that_are_no_text_are_refused(
        self, api: Api, filled: Zone, asked: str
    ) -> None:
        """400 before anything is looked for."""
        api.refused(400, "GET", filled.path(f"/applications?{asked}"))

    @pytest.mark.threat("30h")
    def test_unknown_expansions_show_nothing(self, api: Api, filled: Zone) -> None:
        """Asking for secrets shows none."""
        assert "secret" not in api(
            "GET", filled.path("/providers?expand[]=secrets&expand[]=client_secret")
        ).text.replace("client_secret_set", "")
