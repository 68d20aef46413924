"""Organization operations outside the kinds: identities, tokens, single sign-on, invitations."""

from runtime.contract import answers, changes
from runtime.contract.bodies import bodies
from runtime.contract.queries import AFTER, BEFORE, LIMIT, expand
from runtime.contract.routes.route import ListEnvelope, Route, by_hand
from runtime.domain import kinds
from runtime.domain.kinds.base import PageShape, Verb
from runtime.domain.kinds.queries import Query
from runtime.domain.kinds.sso_connection import SSO_CONNECTION, SSOConnection
from runtime.domain.kinds.values import OrganizationRole

_ORGANIZATION = kinds.ORGANIZATION.item_path
_SSO = f"{_ORGANIZATION}/{SSO_CONNECTION.collection}"

ROUTES: tuple[Route, ...] = (
    by_hand(
        "organizations.list_roles",
        "GET",
        f"{_ORGANIZATION}/roles",
        200,
        "List the roles that organizations and zones know",
        kind=kinds.ORGANIZATION,
        query=(
            Query("scope", values=("organization", "zone"), about="only roles of organizations, or of zones"),
            expand("permissions", "total_count"),
        ),
        response=(answers.OrganizationRoleInfo,),
        envelope=ListEnvelope.ITEMS,
    ),
    by_hand(
        "organizations.exchange_token",
        "POST",
        f"{_ORGANIZATION}/token",
        200,
        "Exchange a user's token for a token of one of the user's organizations",
        kind=kinds.ORGANIZATION,
        response=(answers.TokenResponse,),
        errors=(403, 404),
    ),
    by_hand(
        "service_account_token.create",
        "POST",
        "/service-account-token",
        200,
        "Exchange a service account's client id and secret for a bearer token",
        body=(changes.TokenForm,),
        form=True,
        open=True,
        response=(answers.TokenResponse,),
        errors=(400, 401),
    ),
    by_hand(
        "organizations.list_identities",
        "GET",
        f"{_ORGANIZATION}/identities",
        200,
        "List an organization's users and invitations together, the oldest first",
        kind=kinds.ORGANIZATION,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("query[email]", many=True, min_chars=1, max_chars=255),
            Query("role", values=tuple(OrganizationRole), about="only users and invitations with this role"),
            expand("permissions", "total_count"),
        ),
        response=(answers.Identity,),
        envelope=PageShape.ORGANIZATION_COUNTED,
    ),
    by_hand(
        "sso_connection.enable",
        "POST",
        _SSO,
        201,
        "Create an organization's SSO connection: its users sign in at that provider",
        kind=SSO_CONNECTION,
        body=bodies(SSO_CONNECTION, Verb.CREATE),
        response=(SSOConnection,),
        errors=(400, 403, 404, 409),
    ),
    by_hand(
        "sso_connection.retrieve",
        "GET",
        _SSO,
        200,
        "Get an organization's SSO connection",
        kind=SSO_CONNECTION,
        query=(expand("permissions", "total_count"),),
        response=(SSOConnection,),
        errors=(403, 404),
    ),
    by_hand(
        "sso_connection.update",
        "PATCH",
        _SSO,
        200,
        "Change an organization's SSO connection",
        kind=SSO_CONNECTION,
        body=bodies(SSO_CONNECTION, Verb.UPDATE),
        response=(SSOConnection,),
        errors=(400, 403, 404, 409),
    ),
    by_hand(
        "sso_connection.disable",
        "DELETE",
        _SSO,
        204,
        "Delete an organization's SSO connection: its users sign in with passwords again",
        kind=SSO_CONNECTION,
        errors=(403, 404),
    ),
    by_hand(
        "invitations.retrieve",
        "GET",
        "/invitations/{token}",
        200,
        "Get an invitation by the token in its e-mail",
        kind=kinds.INVITATION,
        open=True,
        response=(answers.InvitationPreview,),
        errors=(404,),
    ),
    by_hand(
        "invitations.accept",
        "POST",
        "/invitations/{token}/accept",
        200,
        "Accept an invitation, as the user whose token is sent or as a new one",
        kind=kinds.INVITATION,
        open=True,
        response=(answers.InvitationAcceptance,),
        errors=(401, 403, 404, 409),
    ),
)
