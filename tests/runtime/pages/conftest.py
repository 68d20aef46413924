"""A browser for everybody, and a server with zones for each module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.runtime.login.conftest import pytest_generate_tests, site  # noqa: F401
from tests.support import chromium
from tests.support.certificates import self_signed
from tests.support.chromium import Window


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The machine's Chromium, for which every name is an application on this machine.

    While it runs, Playwright's event loop is the thread's: no other module's tests may run meanwhile.
    """
    if (path := chromium.executable()) is None:
        pytest.skip("no Chromium on this machine: install `chromium`, or Google Chrome")
    certificate = self_signed(tmp_path_factory.mktemp("applications") / "all.pem", "app.example")
    with (
        chromium.applications(certificate) as port,
        chromium.running(path, everybody_else=port) as browser,
    ):
        yield browser


@pytest.fixture
def window(chrome: Browser) -> Iterator[Window]:
    """A window on a desk, light."""
    with chromium.window(chrome) as opened:
        yield opened


@pytest.fixture
def phone(chrome: Browser) -> Iterator[Window]:
    """A narrow window, dark."""
    with chromium.window(chrome, size=chromium.PHONE, scheme="dark") as opened:
        yield opened
