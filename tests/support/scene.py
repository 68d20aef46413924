"""A zone with its token endpoint, asked as clients ask it, without a socket between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import jwt
from tests.support.factories import App, Company

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.domain.oauth.forms import CONTENT_TYPE
from runtime.services.container import Services
from runtime.services.grants.token_endpoint import respond


def claims_of(token: str) -> dict[str, Any]:
    """What a token says, its signature unchecked."""
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def acting(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in `act`, the acting application first."""
    names, level = [], claims.get("act")
    while level is not None:
        names.append(level["sub"])
        level = level.get("act")
    return tuple(names)


@dataclass(frozen=True)
class Scene:
    """A zone, and requests to its token endpoint as they arrive there."""

    company: Company
    zone: Zone

    @property
    def services(self) -> Services:
        return self.company.services

    async def post(
        self,
        form: list[tuple[str, str]],
        *,
        authorization: str | None = None,
        address: str = "192.0.2.1",
        services: Services | None = None,
        proof: str | None = None,
    ) -> dict[str, Any]:
        """The answer to a form."""
        return await respond(
            services or self.services,
            self.zone.id,
            urlencode(form).encode(),
            content_type=CONTENT_TYPE,
            authorization=authorization,
            address=address,
            request_id="test-request",
            proof=proof,
        )

    async def exchange(
        self,
        app: App,
        subject: str,
        resource: Resource | str,
        scope: str | None = None,
        *,
        services: Services | None = None,
        proof: str | None = None,
        address: str = "192.0.2.1",
        **more: str,
    ) -> dict[str, Any]:
        """The answer to an exchange."""
        target = resource if isinstance(resource, str) else resource.identifier
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": subject,
            "subject_token_type": ACCESS_TOKEN,
            "resource": target,
            **app.form,
            **({"scope": scope} if scope is not None else {}),
            **more,
        }
        return await self.post(list(form.items()), services=services, proof=proof, address=address)
