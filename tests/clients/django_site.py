"""A Django site in memory, and a browser for it."""

import sys
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command
from program import HOST, converse

AUTH = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def start(*, apps: list[str], middleware: tuple[str, ...] = (), **more: Any) -> None:
    """Set the site up: its URLs are `urlpatterns` of the program."""
    settings.configure(
        SECRET_KEY="of this run",
        ALLOWED_HOSTS=[HOST],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[*AUTH, *apps],
        MIDDLEWARE=[*MIDDLEWARE, *middleware],
        TEMPLATES=TEMPLATES,
        ROOT_URLCONF="__main__",
        LOGIN_REDIRECT_URL="/",
        USE_TZ=True,
        **more,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    sys.modules["__main__"].urlpatterns = []


def sign_in(path: str, *, method: str = "get", access_token: Any = lambda session: None) -> None:
    """Sign a user in, from the page that begins it; tells the user's address."""
    from django.contrib.auth import get_user
    from django.http import HttpRequest
    from django.test import Client

    browser = Client(SERVER_NAME=HOST)

    def begin() -> str:
        answer = getattr(browser, method)(path, secure=True)
        assert answer.status_code == 302, answer.content
        return answer["location"]

    def finish(address: str) -> dict[str, Any]:
        parts = urlsplit(address)
        answer = browser.get(f"{parts.path}?{parts.query}", secure=True)
        assert answer.status_code == 302, answer.content
        request = HttpRequest()
        request.session = browser.session
        return {"email": get_user(request).email, "access_token": access_token(browser.session)}

    converse(begin, finish)
