"""Tenants with one of everything, and a request right in form for every route."""

from dataclasses import dataclass
from typing import Any

import httpx
from tests.runtime.management.conftest import Api, Zone

from runtime.contract.routes import ROUTES, Route
from runtime.domain.identifiers import new_id

ADDRESSED = [route for route in ROUTES if "{" in route.path and not route.open]

# A body that is right in form for every operation that has one, so that ids are what is looked at.
BODIES: dict[str, dict[str, Any]] = {
    "zones": {"name": "t"},
    "applications": {"identifier": "t", "name": "t"},
    "resources": {"identifier": "t", "name": "t"},
    "providers": {"identifier": "t", "name": "t"},
    "roles": {"identifier": "t"},
    "groups": {"name": "t"},
    "policies": {"name": "t"},
    "policy-sets": {"name": "t"},
    "application-credentials": {"type": "public", "application_id": "t"},
    "service-accounts": {"name": "t"},
    "sso-connection": {"client_id": "t", "identifier": "https://login.t.example"},
    "api-keys": {"name": "t", "role": "org_viewer"},
    "invitations": {"email": "t@t.example", "role": "org_viewer"},
    "credentials": {"name": "t"},
    "members": {"user_id": "t"},
    "explain": {"application": "t", "user": "t", "resource": "t"},
    "secrets": {"name": "t", "entity_id": "t", "data": {"type": "token", "token": "t"}},
    "changesets": {
        "base_revision": 0,
        "owner": "t",
        "plan_digest": "t",
        "operations": [{"op": "create", "kind": "ServiceAccount", "name": "t", "spec": {"name": "t"}}],
    },
}


@dataclass
class Tenant:
    """A zone with one of everything, by the name of the path parameter that would hold its id."""

    zone: Zone
    ids: dict[str, dict[str, str]]

    def id_for(self, route: Route, parameter: str) -> str:
        """The id of this tenant's that belongs in that place of the path."""
        before = route.path.partition(f"/{{{parameter}}}")[0]
        return self.ids[before.rpartition("/")[2]]["id"]


def fill(zone: Zone) -> Tenant:
    api = zone.api
    made: dict[str, dict[str, str]] = {"zones": {"id": zone.id}, "organizations": {"id": api.organization_id}}
    for collection in (
        "applications",
        "resources",
        "providers",
        "roles",
        "groups",
        "policies",
        "policy-sets",
    ):
        made[collection] = zone.make(collection)
    made["users"] = {"id": zone.user().id}
    made["members"] = made["users"]
    made["organization-users"] = {"id": api.person().id}
    member = {"organization_user_id": made["organization-users"]["id"], "role": "zone_viewer"}
    api.ok("POST", zone.path("/members"), member, status=200)
    made["invitations"] = api.invite()
    made["api-keys"] = {"id": api.key("org_viewer")[0]}
    made["user-agents"] = zone.user_agent()
    made["sessions"] = {"id": zone.session(made["users"]["id"])}
    made["delegated-grants"] = {"id": zone.grant(made["users"]["id"], made["resources"]["id"])}
    application = made["applications"]["id"]
    made["application-credentials"] = zone.password(application)
    made["secrets"] = zone.secret(application)
    made["dependencies"] = made["resources"]
    api.ok("PUT", zone.path(f"/applications/{application}/dependencies/{made['resources']['id']}"))
    api.ok("POST", zone.path(f"/groups/{made['groups']['id']}/members"), {"user_id": made["users"]["id"]})
    for principal in ("applications", "users", "groups"):
        path = zone.path(f"/{principal}/{made[principal]['id']}/roles")
        api.ok("POST", path, {"role_id": made["roles"]["id"]})
    accounts = f"/organizations/{api.organization_id}/service-accounts"
    made["service-accounts"] = api.ok("POST", accounts, {"name": api.named()})
    made["credentials"] = api.ok(
        "POST", f"{accounts}/{made['service-accounts']['id']}/credentials", {"name": "c"}
    )
    version = zone.version(made["policies"]["id"])
    made["policy-versions"] = version
    made["policy-set-versions"] = zone.set_version(made["policy-sets"]["id"], version)
    made["changesets"] = {"id": new_id()}
    made["policy-schemas"] = {"id": version["schema_version"]}
    return Tenant(zone, made)


def parameters(route: Route) -> list[str]:
    return [part[1:-1] for part in route.path.split("/") if part.startswith("{")]


def id_of(tenant: Tenant, route: Route, parameter: str) -> str:
    if parameter in ("user_id", "organizationUserId"):
        return tenant.ids["organization-users"]["id"]
    if parameter == "version_id":
        return tenant.ids["policy-set-versions" if "policy-sets" in route.path else "policy-versions"]["id"]
    return tenant.id_for(route, parameter)


def body_of(route: Route) -> dict[str, Any] | None:
    if not route.body:
        return None
    if route.operation_id in ("members.add", "members.update"):
        role = {"role": "zone_viewer"}
        return role if route.method == "PATCH" else {"organization_user_id": "t", **role}
    if route.operation_id == "policy_set_versions.update":
        return {"active": True}
    if route.operation_id in ("sessions.update", "delegated_grants.update"):
        return {"status": "revoked"}
    if route.method == "PATCH":
        return {}
    collection = route.path.rpartition("/")[2]
    if collection == "roles" and route.path.count("{") > 1:
        return {"role_identifier": "zone_viewer", "owner_type": "platform"}
    if collection == "versions":
        text = {"cedar_raw": "permit (principal, action, resource);"}
        content = text if "policies" in route.path else {"manifest": {"entries": []}}
        return {"schema_version": "2026-11-21", **content}
    return BODIES.get(collection, {})


def send(api: Api, route: Route, values: dict[str, str]) -> httpx.Response:
    path = route.path
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    body = body_of(route)
    query = "?dry_run=true" if route.operation_id == "changesets.create" else ""
    return api(route.method, path + query, body) if body is not None else api(route.method, path + query)
