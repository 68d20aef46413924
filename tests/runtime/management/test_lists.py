"""Lists: pages, cursors, filters, sorting, and what tampering with them gives."""

from datetime import UTC, datetime

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


def names(api: Api, path: str) -> list[str]:
    return [one["identifier"][-1] for one in api.ok("GET", path)["items"]]


class TestPages:
    def test_forwards_and_back(self, api: Api, filled: Zone) -> None:
        """Pages do not overlap, their ends are told, and going back shows the same pages."""
        path = filled.path("/applications?limit=3&sort=identifier")
        first = api.ok("GET", path)
        assert [one["identifier"] for one in first["items"]] == ["id-a", "id-b", "id-c"]
        assert first["pagination"]["before_cursor"] is None
        assert first["page_info"]["has_next_page"] is True
        assert first["page_info"]["has_previous_page"] is False
        second = api.ok("GET", f"{path}&after={first['pagination']['after_cursor']}")
        assert [one["identifier"] for one in second["items"]] == ["id-d", "id-e", "id-f"]
        third = api.ok("GET", f"{path}&cursor={second['pagination']['after_cursor']}")
        assert [one["identifier"] for one in third["items"]] == ["id-g"]
        assert third["pagination"]["after_cursor"] is None
        assert third["page_info"]["end_cursor"]
        back = api.ok("GET", f"{path}&before={third['pagination']['before_cursor']}")
        assert back["items"] == second["items"]
        assert back["pagination"]["after_cursor"]

    def test_total_count(self, api: Api, filled: Zone) -> None:
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
    def test_sorting(self, api: Api, filled: Zone) -> None:
        """By every allowed member, forwards and backwards; by age unless it says otherwise."""
        base = filled.path("/applications?sort=")
        assert names(api, filled.path("/applications")) == list("gbdafce")
        assert names(api, f"{base}-created_at") == list("ecfadbg")
        assert names(api, f"{base}name") == list("abcdefg")
        assert names(api, f"{base}-identifier") == list("gfedcba")
        assert names(api, f"{base}name,-identifier") == list("abcdefg")
        for wrong in ("slug", "", "name,nope", "--name", "name,"):
            api.refused(400, "GET", f"{base}{wrong}")

    def test_sorting_by_several(self, api: Api) -> None:
        """Each member has its own direction, and pages follow it both ways, values missing or not."""
        zone = api.zone()
        for identifier, name in (("x-a", "B"), ("x-b", "A"), ("x-c", "B"), ("x-d", "A"), ("x-e", "C")):
            zone.make("applications", identifier=identifier, name=name)
        path = zone.path("/applications?sort=name,-identifier")
        assert names(api, path) == list("dbcae")
        assert names(api, zone.path("/applications?sort=-name,identifier")) == list("eacbd")
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
        seen, never = zone.user("a@example.com", authenticated_at=_long_ago()), zone.user("b@example.com")
        later = zone.user("c@example.com", authenticated_at=_long_ago())
        for sort, expected in (
            ("authenticated_at,-email", [later, seen, never]),
            ("-authenticated_at,email", [never, seen, later]),
        ):
            found, cursor = [], ""
            for _ in range(3):
                page = api.ok("GET", zone.path(f"/users?sort={sort}&limit=1{cursor}"))
                found.append(page["items"][0]["id"])
                cursor = f"&after={page['pagination']['after_cursor']}"
            assert found == [one.id for one in expected]
        api.refused(400, "GET", zone.path("/applications?sort=name,name"))

    def test_ids(self, api: Api, filled: Zone) -> None:
        """Unknown ids are left out; as many as are asked come on one page; no cursor beside them."""
        ids = [one["id"] for one in api.ok("GET", filled.path("/applications"))["items"]]
        asked = "&".join(f"filter[id]={one}" for one in [*ids, new_id()])
        assert len(api.ok("GET", filled.path(f"/applications?{asked}"))["items"]) == 7
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        api.refused(400, "GET", filled.path(f"/applications?{asked}&after={cursor}"))
        too_many = "&".join(f"filter[id]={n}" for n in range(101))
        api.refused(400, "GET", filled.path(f"/applications?{too_many}"))

    def test_exact_filters(self, api: Api, filled: Zone) -> None:
        """Repeated values are or; the older name means the same and must not disagree."""
        assert names(api, filled.path("/applications?filter[identifier]=id-a&filter[identifier]=id-b")) == [
            "b",
            "a",
        ]
        assert names(api, filled.path("/applications?identifier=id-c")) == ["c"]
        assert names(api, filled.path("/applications?slug=app-d")) == ["d"]
        api.refused(400, "GET", filled.path("/applications?identifier=id-a&filter[identifier]=id-b"))

    def test_text_search(self, api: Api, filled: Zone) -> None:
        """Part of a value, in any case; repeated values are or; the plain search looks everywhere."""
        assert names(api, filled.path("/applications?query[name]=app%20A")) == ["a"]
        assert names(api, filled.path("/applications?query[name]=app%20a&query[name]=APP%20B")) == ["b", "a"]
        assert names(api, filled.path("/applications?query[]=id-e")) == ["e"]
        assert names(api, filled.path("/applications?query=APP%20F")) == ["f"]

    def test_traits(self, api: Api) -> None:
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

    def test_unknown_selections_are_refused(self, api: Api, filled: Zone) -> None:
        """A filter that does not exist would show more than was asked for; other names are ignored."""
        api.refused(400, "GET", filled.path("/applications?filter[nmae]=x"))
        api.refused(400, "GET", filled.path("/applications?query[consent]=x"))
        assert len(names(api, filled.path("/applications?unknown=1&expand[]=nothing"))) == 7
        api.refused(400, "GET", filled.path("/providers?filter[type]=other"))
        api.refused(400, "GET", filled.path("/resources?filter[owner_type]=nobody"))

    def test_expand_in_both_spellings(self, api: Api, filled: Zone) -> None:
        """With and without brackets; different values in the two are refused."""
        for query in (
            "expand=total_count",
            "expand[]=total_count",
            "expand=total_count&expand[]=total_count",
        ):
            assert api.ok("GET", filled.path(f"/applications?{query}"))["pagination"]["total_count"] == 7
        api.refused(400, "GET", filled.path("/applications?expand=total_count&expand[]=permissions"))


class TestTampering:
    @pytest.mark.threat("30e", "30j")
    @pytest.mark.parametrize("limit", ["0", "101", "abc", "-1", "1.5", "", "٣", "1e1", "9" * 400])
    def test_limits(self, api: Api, filled: Zone, limit: str) -> None:
        """A limit is a whole number from 1 to 100."""
        told = api.refused(400, "GET", filled.path(f"/applications?limit={limit}"))
        assert told["code"] == "validation_error"
        assert told["details"][0]["field"] == "limit"

    @pytest.mark.threat("30a", "30j")
    def test_altered_cursors(self, api: Api, filled: Zone) -> None:
        """Every single character of a cursor counts."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        for place in range(0, len(cursor) - 1, 7):
            changed = "A" if cursor[place] != "A" else "B"
            altered = f"{cursor[:place]}{changed}{cursor[place + 1 :]}"
            told = api.refused(400, "GET", filled.path(f"/applications?after={altered}"))
            assert told["code"] == "validation_error"

    @pytest.mark.threat("30d", "30j")
    @pytest.mark.parametrize("cursor", ["", "x", "a" * 256, "a" * 255, "%00", "é", "AAAA", "null"])
    def test_invented_cursors(self, api: Api, filled: Zone, cursor: str) -> None:
        """Nobody but the service makes cursors; 1 to 255 characters."""
        for name in ("after", "before", "cursor"):
            told = api.refused(400, "GET", filled.path(f"/applications?{name}={cursor}"))
            assert told["code"] == ("bad_request" if cursor == "%00" else "validation_error")

    @pytest.mark.threat("30b", "30j")
    def test_cursors_of_other_lists(self, api: Api, other: Api, filled: Zone) -> None:
        """A cursor opens in the list it comes from: same route, zone, tenant, filters and sorting."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        assert api.ok("GET", filled.path(f"/applications?after={cursor}&expand[]=total_count&limit=2"))
        sibling, foreign = api.zone(), other.zone()
        for path in (
            filled.path(f"/resources?after={cursor}"),
            filled.path(f"/applications?sort=name&after={cursor}"),
            filled.path(f"/applications?query[name]=x&after={cursor}"),
            sibling.path(f"/applications?after={cursor}"),
        ):
            assert api.refused(400, "GET", path)["code"] == "validation_error"
        theirs = other.refused(400, "GET", foreign.path(f"/applications?after={cursor}"))
        assert theirs["code"] == "validation_error"

    @pytest.mark.threat("30i", "30j")
    def test_both_directions_at_once(self, api: Api, filled: Zone) -> None:
        """`after` and `before` together are 400."""
        cursor = api.ok("GET", filled.path("/applications?limit=1"))["pagination"]["after_cursor"]
        for second in (f"before={cursor}", "cursor=other"):
            told = api.refused(400, "GET", filled.path(f"/applications?after={cursor}&{second}"))
            assert told["code"] == "validation_error"

    @pytest.mark.threat("30f", "30g")
    @pytest.mark.parametrize("text", ["%25", "_", "%5C", "'%20or%201=1--", "%22", "a%25b", "%2A", "%27%3B"])
    def test_no_character_is_special_in_a_search(self, api: Api, filled: Zone, text: str) -> None:
        """Wildcards and quotes are text like any other."""
        assert names(api, filled.path(f"/applications?query[name]={text}")) == []
        assert names(api, filled.path(f"/applications?filter[identifier]={text}")) == []

    @pytest.mark.threat("30h", "30j")
    def test_endless_parameters(self, api: Api, filled: Zone) -> None:
        """Hundreds of parameters are refused, and so are control characters and bytes that are no text."""
        for name, count, status in (("expand[]=x", 600, 400), ("expand[]=secrets", 1000, 413)):
            many = "&".join([name] * count)
            assert api.refused(status, "GET", filled.path(f"/applications?{many}"))["code"] == "bad_request"
        for query in ("query[name]=%00", "query[name]=%0a", "query[name]=%ff", "filter[identifier]=%00"):
            api.refused(400, "GET", filled.path(f"/applications?{query}"))

    @pytest.mark.threat("30h")
    def test_unknown_expansions_show_nothing(self, api: Api, filled: Zone) -> None:
        """Asking for secrets shows none."""
        assert "secret" not in api(
            "GET", filled.path("/providers?expand[]=secrets&expand[]=client_secret")
        ).text.replace("client_secret_set", "")
