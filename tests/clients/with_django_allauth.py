"""django-allauth with its provider openid_connect."""

from django_site import sign_in, start
from program import settings

start(
    apps=[
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ],
    middleware=("allauth.account.middleware.AccountMiddleware",),
    AUTHENTICATION_BACKENDS=["allauth.account.auth_backends.AuthenticationBackend"],
    SOCIALACCOUNT_STORE_TOKENS=True,
    SOCIALACCOUNT_LOGIN_ON_GET=True,
    ACCOUNT_EMAIL_VERIFICATION="none",
    **settings(),
)

from allauth.socialaccount.models import SocialToken  # noqa: E402
from django.urls import include, path  # noqa: E402

urlpatterns = [path("accounts/", include("allauth.urls"))]


def access_token(session: object) -> str | None:
    found = SocialToken.objects.first()
    return found.token if found else None


sign_in("/accounts/oidc/zonewright/login/", access_token=access_token)
