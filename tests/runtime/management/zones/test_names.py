"""Users and applications of a zone share one namespace, whichever way a name comes, and it is given once."""

import pytest
from tests.runtime.management.conftest import Api, Zone, caller

from runtime.services.management.organizations import organizations


@pytest.fixture
def people(api: Api) -> Zone:
    """A zone of this test alone, with a user who is called `ann`."""
    zone = api.zone()
    zone.user("ann@example.com", identifier="ann")
    return zone


def refuse(people: Zone, name: str) -> None:
    """See an application get a name that is none of these, and not get this one."""
    made = people.make("applications", identifier=f"{name}.app")

    body = {"identifier": name, "name": "Ann"}
    people.api.refused(409, "POST", people.path("/applications"), body)
    people.api.refused(409, "PATCH", people.path(f"/applications/{made['id']}"), {"identifier": name})


class TestApplications:
    @pytest.mark.threat("40a")
    @pytest.mark.threat("40d")
    def test_cannot_be_made_under_the_name_of_a_user(self, people: Zone) -> None:
        """`sub` of its own tokens would be the user's."""
        people.make("applications", identifier="anne")
        body = {"identifier": "ann", "name": "Ann"}

        refused = people.api.refused(409, "POST", people.path("/applications"), body)

        assert "already a User with the identifier `ann`" in refused["message"]

    @pytest.mark.threat("40b")
    def test_cannot_be_called_by_the_address_of_a_user(self, people: Zone) -> None:
        """Readers of tokens know people by their addresses, in whatever case."""
        people.make("applications", identifier="anne@example.com")
        body = {"identifier": "Ann@Example.com", "name": "Ann"}

        refused = people.api.refused(409, "POST", people.path("/applications"), body)

        assert "is the e-mail address of a user" in refused["message"]

    @pytest.mark.threat("40e")
    def test_cannot_be_given_the_name_of_a_user(self, people: Zone) -> None:
        """An update is as good as a new one."""
        made = people.make("applications", identifier="anne")
        path = people.path(f"/applications/{made['id']}")
        people.api.ok("PATCH", path, {"identifier": "billing"})

        people.api.refused(409, "PATCH", path, {"identifier": "ann"})

        assert people.api.ok("GET", path)["identifier"] == "billing"

    @pytest.mark.threat("40i")
    @pytest.mark.parametrize("name", ["ANN", "Ann", "aNN"])
    def test_cannot_have_the_name_of_a_user_in_another_case(self, people: Zone, name: str) -> None:
        """Readers may compare so."""
        refuse(people, name)

    @pytest.mark.threat("40j")
    @pytest.mark.parametrize("name", ["\uff41nn", "a\u200bnn", "a\u00adnn", "ann ", "ann\ufe0f"])
    def test_cannot_have_the_name_of_a_user_in_other_characters(self, people: Zone, name: str) -> None:
        """Neither by width nor by what does not show."""
        refuse(people, name)

    def test_cannot_be_called_like_clients_that_register_themselves(self, people: Zone) -> None:
        """Policies would take the one for the other."""
        agent = people.user_agent()
        people.make("applications", identifier="ua")

        body = {"identifier": agent["identifier"], "name": "Agent"}
        people.api.refused(400, "POST", people.path("/applications"), body)

    def test_in_another_zone_the_name_is_free(self, people: Zone) -> None:
        """Each zone has its own issuer, and names of its own."""
        people.api.zone().make("applications", identifier="ann")


class TestUsers:
    @pytest.mark.threat("40c")
    def test_cannot_be_given_the_name_of_an_application(self, people: Zone) -> None:
        """Renaming is the one way in which the management API names a user."""
        people.make("applications", identifier="billing")
        bob = people.user(identifier="bob")
        path = people.path(f"/users/{bob.id}")
        people.api.ok("PATCH", path, {"identifier": "robert"})

        for name in ("billing", "Billing"):
            people.api.refused(409, "PATCH", path, {"identifier": name})
        assert people.api.ok("GET", path)["identifier"] == "robert"

    def test_who_comes_later_is_not_given_the_name_of_one_who_is_gone(self, people: Zone) -> None:
        """Neither of a user who was deleted, nor of one who was renamed."""
        (ann,) = people.api.ok("GET", people.path("/users"))["items"]
        bob, eve = people.user(identifier="bob"), people.user(identifier="eve")
        people.api.ok("PATCH", people.path(f"/users/{bob.id}"), {"identifier": "robert"})
        people.api.ok("DELETE", people.path(f"/users/{ann['id']}"))

        for name in ("ann", "Ann", "bob"):
            people.api.refused(409, "PATCH", people.path(f"/users/{eve.id}"), {"identifier": name})
            body = {"identifier": name, "name": name}
            people.api.refused(409, "POST", people.path("/applications"), body)
        people.api.ok("PATCH", people.path(f"/users/{bob.id}"), {"identifier": "bob"})


class TestOrganizations:
    @pytest.mark.threat("47f")
    def test_a_label_is_not_given_again(self, api: Api) -> None:
        """An organization made under the name of one that is gone has another label, and other keys."""
        name = api.named("company")
        first, key = api.server.call(lambda services: organizations.create_organization(services, name))
        gone = caller(api.server, key, first.id)
        gone.ok("GET", f"/organizations/{first.label}")
        gone.ok("DELETE", f"/organizations/{first.label}")

        second, new_key = api.server.call(lambda services: organizations.create_organization(services, name))

        assert second.label != first.label
        caller(api.server, new_key, second.id).refused(404, "GET", f"/organizations/{first.label}")
        for label in (first.label, second.label, second.id):
            gone.refused(401, "GET", f"/organizations/{label}")
