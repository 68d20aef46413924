"""Application credentials for workloads, keys and client addresses: what the API makes of them."""

from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id


def credential(zone: Zone, **members: Any) -> dict[str, Any]:
    """A new credential, of a new application unless one is named."""
    owner = members.pop("application_id", None) or zone.make("applications")["id"]
    return zone.make("application-credentials", application_id=owner, **members)


def refused(zone: Zone, status: int, **members: Any) -> dict[str, Any]:
    """The refusal of a credential of a new application."""
    body = {"application_id": zone.make("applications")["id"], **members}
    return zone.api.refused(status, "POST", zone.path("/application-credentials"), body)


def path_of(zone: Zone, made: dict[str, Any]) -> str:
    return zone.path(f"/application-credentials/{made['id']}")


@pytest.fixture
def provider(zone: Zone) -> str:
    """A provider whose tokens workloads have."""
    return str(zone.make("providers")["id"])


class TestToken:
    def test_is_named_after_its_subject(self, api: Api, zone: Zone, provider: str) -> None:
        """The identifier is the subject, and the answer has nothing that another type has."""
        made = credential(zone, type="token", provider_id=provider, subject="repo:acme/app")
        assert made.keys() == {
            *("id", "created_at", "updated_at", "organization_id", "zone_id", "slug"),
            *("application_id", "type", "identifier", "provider_id", "subject"),
        }
        assert made["identifier"] == made["subject"] == "repo:acme/app"
        assert made["provider_id"] == provider
        found = api.ok("GET", path_of(zone, made))
        assert found == made | {name: found[name] for name in ("application", "provider")}

    def test_takes_another_subject(self, api: Api, zone: Zone, provider: str) -> None:
        """The identifier follows the subject; provider and type stay what they are."""
        made = credential(zone, type="token", provider_id=provider, subject="a")
        changed = api.ok("PATCH", path_of(zone, made), {"subject": "b", "type": "token"})
        assert (changed["subject"], changed["identifier"]) == ("b", "b")
        api.refused(400, "PATCH", path_of(zone, made), {"provider_id": provider})
        api.refused(400, "PATCH", path_of(zone, made), {"identifier": "c"})
        api.refused(400, "PATCH", path_of(zone, made), {"type": "public"})

    @pytest.mark.parametrize("members", [{}, {"any_subject": True}])
    def test_without_a_subject_is_for_any_and_says_so(
        self, api: Api, zone: Zone, provider: str, members: dict[str, Any]
    ) -> None:
        """Whoever reads the credential sees that every token of the provider is accepted."""
        made = credential(zone, type="token", provider_id=provider, **members)
        assert (made["identifier"], made["any_subject"]) == ("*", True)
        assert "subject" not in made
        assert api.ok("GET", path_of(zone, made))["any_subject"] is True

    @pytest.mark.threat("33g")
    def test_any_subject_never_contradicts_the_subject(self, zone: Zone, provider: str) -> None:
        """The answer would say something else than what counts."""
        told = refused(zone, 400, type="token", provider_id=provider, any_subject=False)
        assert "any_subject" in told["message"]
        refused(zone, 400, type="token", provider_id=provider, subject="*")
        refused(zone, 400, type="token", provider_id=provider, subject="a", any_subject=True)

    def test_any_subject_comes_and_goes(self, api: Api, zone: Zone, provider: str) -> None:
        """It follows from the subject, and cannot be said against it."""
        made = credential(zone, type="token", provider_id=provider, subject="a")
        api.refused(400, "PATCH", path_of(zone, made), {"subject": None, "any_subject": False})
        api.refused(400, "PATCH", path_of(zone, made), {"any_subject": True})
        api.refused(400, "PATCH", path_of(zone, made), {"subject": "*"})
        wide = api.ok("PATCH", path_of(zone, made), {"subject": None})
        assert (wide["identifier"], wide["any_subject"]) == ("*", True)
        api.refused(400, "PATCH", path_of(zone, made), {"any_subject": None})
        narrow = api.ok("PATCH", path_of(zone, made), {"subject": "b"})
        assert narrow["identifier"] == "b"
        assert "any_subject" not in narrow

    @pytest.mark.parametrize("members", [{"subject": "shared"}, {"any_subject": True}])
    def test_is_unique_at_its_provider(self, zone: Zone, provider: str, members: dict[str, Any]) -> None:
        """A subject means one application at one provider, and may mean another one at another."""
        credential(zone, type="token", provider_id=provider, **members)
        told = refused(zone, 409, type="token", provider_id=provider, **members)
        assert told["details"][0]["field"] == "identifier"
        other = zone.make("providers")["id"]
        assert credential(zone, type="token", provider_id=other, **members)["provider_id"] == other

    def test_takes_no_client_id(self, zone: Zone, provider: str) -> None:
        """A subject is another name than a client id: both may be the same text."""
        name = zone.api.named()
        credential(zone, type="public", identifier=name)
        assert credential(zone, type="token", provider_id=provider, subject=name)["identifier"] == name
        refused(zone, 409, type="public-key", identifier=name, jwks_uri="https://app.example/keys")

    def test_needs_a_provider_of_the_zone(self, api: Api, zone: Zone) -> None:
        """One of another zone is refused like one that does not exist."""
        elsewhere = api.zone().make("providers")["id"]
        messages = {
            refused(zone, 400, type="token", subject="a", provider_id=one)["message"].replace(one, "-")
            for one in (elsewhere, new_id())
        }
        assert len(messages) == 1
        refused(zone, 400, type="token", subject="a")

    def test_goes_with_its_provider(self, api: Api, zone: Zone, provider: str) -> None:
        """Tokens of a provider that is gone prove nothing."""
        made = credential(zone, type="token", provider_id=provider, subject="a")
        found = api.ok("GET", path_of(zone, made))
        assert found == made | {name: found[name] for name in ("application", "provider")}
        api.ok("DELETE", zone.path(f"/providers/{provider}"))
        api.refused(404, "GET", path_of(zone, made))


class TestPublicKey:
    def test_has_an_address_of_keys(self, api: Api, zone: Zone) -> None:
        """The client id is made when none is given, and neither changes."""
        made = credential(zone, type="public-key", jwks_uri="https://app.example/keys")
        assert made["identifier"]
        assert made["jwks_uri"] == "https://app.example/keys"
        assert api.ok("PATCH", path_of(zone, made), {"type": "public-key"}) == made
        api.refused(400, "PATCH", path_of(zone, made), {"jwks_uri": "https://other.example/keys"})
        api.refused(400, "PATCH", path_of(zone, made), {"identifier": "x"})

    @pytest.mark.parametrize("members", [{}, {"jwks_uri": "keys"}, {"jwks_uri": "https://a", "subject": "a"}])
    def test_refuses_what_is_none(self, zone: Zone, members: dict[str, Any]) -> None:
        """Without keys, with an address that is none, or with a member of another type."""
        refused(zone, 400, type="public-key", **members)


class TestUrl:
    def test_is_an_address(self, api: Api, zone: Zone) -> None:
        """The client id is the address, and may become another one."""
        first, second = (f"https://{zone.api.named()}.example/client" for _ in range(2))
        made = credential(zone, type="url", identifier=first)
        assert made["identifier"] == first
        assert api.ok("PATCH", path_of(zone, made), {"identifier": second})["identifier"] == second
        api.refused(400, "PATCH", path_of(zone, made), {"identifier": "nowhere"})
        refused(zone, 409, type="url", identifier=second)

    @pytest.mark.parametrize("members", [{}, {"identifier": "nowhere"}])
    def test_refuses_what_is_none(self, zone: Zone, members: dict[str, Any]) -> None:
        """The address is required, and absolute."""
        refused(zone, 400, type="url", **members)


def test_lists_show_every_type(api: Api, zone: Zone, provider: str) -> None:
    """The credentials of an application, whatever their type."""
    owner = zone.make("applications")["id"]
    made = [
        credential(zone, application_id=owner, type="public"),
        credential(zone, application_id=owner, type="token", provider_id=provider, subject="a"),
        credential(zone, application_id=owner, type="public-key", jwks_uri="https://a.example/keys"),
        credential(zone, application_id=owner, type="url", identifier=f"https://{owner}.example/client"),
    ]
    paths = (
        zone.path(f"/applications/{owner}/application-credentials"),
        zone.path(f"/application-credentials?application_id={owner}"),
    )
    listed = [{one["id"]: one for one in api.ok("GET", path)["items"]} for path in paths]
    assert listed == [{one["id"]: one for one in made}] * 2
