"""Resources: their identifiers are the `aud` of tokens, and so is the issuer of their zone."""

from collections.abc import Callable

import pytest
from sqlalchemy import update
from tests.runtime.management.conftest import Api, Zone

from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda issuer: issuer,
    "with a slash": lambda issuer: f"{issuer}/",
    "scheme in upper case": lambda issuer: issuer.replace("http", "HTTP", 1),
    "escaped": lambda issuer: issuer.replace("/z/", "/%7A/"),
}


@pytest.mark.threat("14e")
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_are_not_called_as_their_zone_is(api: Api, spelled: Callable[[str], str]) -> None:
    """Neither made so nor renamed; what stands beside or below the issuer is another name."""
    zone = api.zone()
    issuer = zone.body["protocols"]["oauth2"]["issuer"]
    made = zone.make("resources", identifier=f"{issuer}/tools")
    path = zone.path(f"/resources/{made['id']}")
    api.ok("PATCH", path, {"identifier": f"{issuer}-tools"})

    body = {"identifier": spelled(issuer), "name": "Mine"}
    assert not [
        (method, where)
        for method, where in (("POST", zone.path("/resources")), ("PATCH", path))
        if "an issuer of the zone" not in api.refused(400, method, where, body)["message"]
    ]

    assert api.ok("GET", path)["identifier"] == f"{issuer}-tools"


def test_may_be_called_as_another_zone_is(api: Api) -> None:
    """Its tokens say who issued them; and nobody learns which zones there are."""
    other = api.zone().body["protocols"]["oauth2"]["issuer"]

    assert api.zone().make("resources", identifier=other)["identifier"] == other


WEB, LOCAL, SCHEME = "https://app.example/cb", "http://localhost/cb", "com.example.app:/cb"


def application(zone: Zone, *uris: str) -> str:
    """An application that is answered at these URIs."""
    return str(zone.make("applications", protocols={"oauth2": {"redirect_uris": list(uris)}})["id"])


class TestApplicationType:
    """The type of a resource says which redirect URIs the application has that provides it."""

    @pytest.mark.parametrize(
        ("type_", "uris", "fits"),
        [
            ("web", [], True),
            ("web", [WEB], True),
            ("web", [WEB, LOCAL], False),
            ("web", ["http://127.0.0.1:8080/cb"], False),
            ("web", ["https://localhost/cb"], False),
            ("web", [SCHEME], False),
            ("native", [], True),
            ("native", [LOCAL, SCHEME, "http://[::1]/cb"], True),
            ("native", [LOCAL, WEB], False),
        ],
    )
    def test_fits_the_application_that_provides_the_resource(
        self, zone: Zone, type_: str, uris: list[str], fits: bool
    ) -> None:
        """`native` is on the user's own machine, `web` is not; without redirect URIs either is true."""
        name, owner = zone.api.named(), application(zone, *uris)
        body = {"identifier": f"https://{name}.example", "name": name, "application_type": type_}
        made = zone.make("resources", **body | {"identifier": f"https://{name}-alone.example"})
        if fits:
            assert zone.make("resources", **body, application_id=owner)["application_type"] == type_
            assert zone.api.ok("PATCH", zone.path(f"/resources/{made['id']}"), {"application_id": owner})
            return
        told = zone.api.refused(400, "POST", zone.path("/resources"), {**body, "application_id": owner})
        assert [each["field"] for each in told["details"]] == ["application_type"]
        unfit = next(uri for uri in uris if uri in told["message"])
        assert f"`{unfit}`" in told["message"]
        path = zone.path(f"/resources/{made['id']}")
        zone.api.refused(400, "PATCH", path, {"application_id": owner})
        assert "application_id" not in zone.api.ok("GET", path)

    def test_is_web_where_nothing_is_said(self, zone: Zone) -> None:
        """An application at `localhost` provides resources that say that they are native."""
        name, owner = zone.api.named(), application(zone, LOCAL)
        body = {"identifier": f"https://{name}.example", "name": name, "application_id": owner}
        zone.api.refused(400, "POST", zone.path("/resources"), body)
        assert zone.make("resources", **body, application_type="native")

    def test_holds_for_new_redirect_uris(self, zone: Zone) -> None:
        """The application keeps the ones it had; what it does not provide is no matter."""
        owner = application(zone, WEB)
        made = zone.make("resources", application_id=owner)
        path = zone.path(f"/applications/{owner}")
        patch = {"protocols": {"oauth2": {"redirect_uris": [WEB, LOCAL]}}}
        told = zone.api.refused(400, "PATCH", path, patch)
        assert told["details"][0]["field"] == "protocols.oauth2.redirect_uris[1]"
        assert made["identifier"] in told["message"]
        assert zone.api.ok("GET", path)["protocols"]["oauth2"]["redirect_uris"] == [WEB]

        zone.api.ok("PATCH", zone.path(f"/resources/{made['id']}"), {"application_id": None})
        assert zone.api.ok("PATCH", path, patch)

    def test_what_does_not_fit_from_before_can_be_changed_otherwise(self, zone: Zone) -> None:
        """Only who changes the type, the application or its redirect URIs has to make them fit."""
        owner = application(zone, WEB)
        made = zone.make("resources", application_id=owner)

        async def before_the_rule(services: Services) -> None:
            protocols = {"oauth2": {"redirect_uris": [LOCAL]}}
            async with services.database.transaction() as conn:
                table = TABLES["Application"]
                await conn.execute(update(table).where(table.c.id == owner).values(protocols=protocols))

        zone.api.server.call(before_the_rule)
        path = zone.path(f"/resources/{made['id']}")
        assert zone.api.ok("PATCH", path, {"name": "other"})["name"] == "other"
        assert zone.api.ok("PATCH", zone.path(f"/applications/{owner}"), {"name": "other"})["name"] == "other"
        assert zone.api.ok("PATCH", path, {"application_type": "native"})
        zone.api.refused(400, "PATCH", path, {"application_type": "web"})
