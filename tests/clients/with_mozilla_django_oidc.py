"""mozilla-django-oidc."""

from django_site import sign_in, start
from program import settings

start(
    apps=["mozilla_django_oidc"],
    AUTHENTICATION_BACKENDS=["mozilla_django_oidc.auth.OIDCAuthenticationBackend"],
    OIDC_STORE_ACCESS_TOKEN=True,
    **settings(),
)

from django.urls import include, path  # noqa: E402

urlpatterns = [path("oidc/", include("mozilla_django_oidc.urls"))]
sign_in("/oidc/authenticate/", access_token=lambda session: session.get("oidc_access_token"))
