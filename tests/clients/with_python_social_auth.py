"""python-social-auth in Django, with its backend for any OpenID provider."""

from django_site import sign_in, start
from program import settings

start(
    apps=["social_django"],
    AUTHENTICATION_BACKENDS=["social_core.backends.open_id_connect.OpenIdConnectAuth"],
    **settings(),
)

from django.urls import include, path  # noqa: E402
from social_django.models import UserSocialAuth  # noqa: E402

urlpatterns = [path("", include("social_django.urls"))]
sign_in("/login/oidc/", method="post", access_token=lambda session: UserSocialAuth.objects.get().access_token)
