"""Users with policy bundles, in a zone that all of a module share."""

from collections.abc import Callable

import pytest
from tests.runtime.management.bundles.holding import Holder
from tests.runtime.management.conftest import Api
from tests.support.factories import Company, operator

from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services


@pytest.fixture(scope="module")
def company(api: Api) -> Company:
    acting = operator(api.organization_id)
    return Company(api.server.services, acting, api.organization_id, api.server.api_key)


@pytest.fixture(scope="module")
def shared(api: Api, company: Company) -> Zone:
    return api.server.call(lambda services: company.zone(api.named("zone")))


@pytest.fixture
def make(api: Api, company: Company, shared: Zone) -> Callable[..., Holder]:
    """Somebody new, in the zone that all share unless another is given."""

    def of(zone: Zone = shared) -> Holder:
        async def build(services: Services) -> Holder:
            app = await company.app(zone, api.named("app"))
            person = await company.person(zone, f"{api.named('ann')}@acme.test")
            return Holder(api, company, zone, app, person, await company.policy_token(zone, app, person))

        return api.server.call(build)

    return of


@pytest.fixture
def ann(make: Callable[..., Holder]) -> Holder:
    return make()
