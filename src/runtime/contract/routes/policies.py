"""Policy operations outside the kinds: schemas, the policies of a set, the bundles of users."""

from pydantic import BaseModel

from runtime.contract.bundles import MEDIA_TYPE, BundleArchive
from runtime.contract.queries import AFTER, BEFORE, LIMIT, ORDER, expand
from runtime.contract.routes.route import Route, by_hand
from runtime.domain import kinds
from runtime.domain.kinds.base import PageShape
from runtime.domain.kinds.policy import FORMAT, PolicySchema
from runtime.domain.kinds.queries import Query

_VERSION = kinds.POLICY_SET_VERSION.item_path
_SCHEMAS = f"{kinds.ZONE.item_path}/policy-schemas"

ROUTES: tuple[Route, ...] = (
    by_hand(
        "policy_schemas.list",
        "GET",
        _SCHEMAS,
        200,
        "List the versions of the policy schema",
        kind=kinds.POLICY,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("sort", values=("created_at",)),
            ORDER,
            FORMAT,
            Query("filter[default]", "boolean", about="whether it is the zone's default"),
            Query("is_default", "boolean", deprecated=True, older_form_of="filter[default]"),
            expand("total_count", "user"),
        ),
        response=(PolicySchema,),
        envelope=PageShape.ZONE,
    ),
    by_hand(
        "policy_schemas.retrieve",
        "GET",
        f"{_SCHEMAS}/{{version}}",
        200,
        "Get a version of the policy schema",
        kind=kinds.POLICY,
        query=(FORMAT,),
        response=(PolicySchema,),
    ),
    by_hand(
        "policy_schemas.set_default",
        "PATCH",
        f"{_SCHEMAS}/{{version}}",
        200,
        "Make a version of the policy schema the zone's default",
        kind=kinds.POLICY,
        body=(BaseModel,),
        body_required=False,
        response=(PolicySchema,),
    ),
    by_hand(
        "policy_set_versions.list_policies",
        "GET",
        f"{_VERSION}/policies",
        200,
        "List the policy versions of a policy set version",
        kind=kinds.POLICY_VERSION,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("sort", values=("created_at",)),
            ORDER,
            FORMAT,
            expand("total_count", "user"),
        ),
        response=kinds.POLICY_VERSION.classes,
        envelope=PageShape.ZONE,
    ),
    by_hand(
        "policy_bundle.retrieve",
        "GET",
        "/policy/bundle",
        200,
        "Get the policy bundle of the token's user; the first time it is made",
        response=(BundleArchive,),
        media=MEDIA_TYPE,
        zone_token=True,
        headers=("If-None-Match",),
        etag=True,
        errors=(304, 403, 406),
    ),
    by_hand(
        "policy_bundle.update",
        "PUT",
        "/policy/bundle",
        200,
        "Replace the policy bundle of the token's user",
        body=(BundleArchive,),
        takes=MEDIA_TYPE,
        response=(BundleArchive,),
        media=MEDIA_TYPE,
        zone_token=True,
        headers=("If-Match",),
        etag=True,
        errors=(403, 406, 412, 413, 415),
    ),
    by_hand(
        "policy_bundle.reset",
        "DELETE",
        "/policy/bundle",
        204,
        "Reset the policy bundle of the token's user to the default policies",
        zone_token=True,
        errors=(403,),
    ),
)
