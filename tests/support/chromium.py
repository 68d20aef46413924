"""A real Chromium for tests of pages: what it complains about fails the test, what it shows is kept."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    expect,
    sync_playwright,
)
from tests.support.certificates import serving

SHOTS = Path(__file__).resolve().parent.parent.parent / "test-artifacts" / "pages"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1100, "height": 800}
Scheme = Literal["light", "dark"]


def executable() -> str | None:
    """The machine's Chromium, or one of its kind; None when there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def applications(certificate: Path) -> Iterator[int]:
    """A web server that is every application: whatever it is asked for, it shows a page. Its port.

    A form that is posted to it leads on, by redirect, to a page of the same application that names its fields
    in the query, so that a test can read them.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>The application</title>")

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["content-length"])).decode("ascii")
            self.send_response(302)
            self.send_header("Location", f"/posted?{form}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = serving(certificate).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def running(executable_path: str, *, everybody_else: int) -> Iterator[Browser]:
    """A browser with a profile of its own that is thrown away.

    Args:
        everybody_else: the port on this machine that answers for every name, so that nothing leaves it.
    """
    names = f"--host-resolver-rules=MAP *:443 127.0.0.1:{everybody_else}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable_path, args=[*FLAGS, names])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Window:
    """A window with cookies of its own.

    Attributes:
        complaints: what the browser logged as wrong: violations of the content policy, scripts that failed.
    """

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> "Window":
        """Go to an address."""
        self.page.goto(address)
        return self

    def button(self, name: str, **options: Any) -> Locator:
        """The button of that name, as assistive technology finds it."""
        return self.page.get_by_role("button", name=name, **options)

    def link(self, name: str) -> Locator:
        """The link of that name."""
        return self.page.get_by_role("link", name=name)

    def fill(self, **fields: str) -> "Window":
        """Write into the fields of these labels; underscores stand for blanks."""
        for label, value in fields.items():
            self.page.get_by_label(label.replace("E_mail", "E-mail").replace("_", " ")).fill(value)
        return self

    def shows(self, heading: str) -> "Window":
        """See that this is the page with that one main heading, as soon as it is there."""
        expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)
        return self

    def enter(self) -> None:
        """Press Enter, which leads to another page."""
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def keep(self, name: str) -> None:
        """Keep a picture of the page, and see that it is sound.

        Nothing stands beside the screen; there is a language, a title, one main heading; fields have labels.
        """
        assert self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, name
        assert self.page.evaluate("document.documentElement.lang") == "en"
        assert self.page.title()
        assert self.page.get_by_role("heading", level=1).count() == 1
        unnamed = (
            "[...document.querySelectorAll('input:not([type=hidden])')].filter(e => !e.labels.length).length"
        )
        assert self.page.evaluate(unnamed) == 0, name
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def tab_to(self, target: Locator, *, at_most: int = 20) -> None:
        """Press Tab until the element has the focus, and see that the focus can be seen."""
        for _ in range(at_most):
            self.page.keyboard.press("Tab")
            if target.evaluate("e => e === document.activeElement"):
                assert target.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
                return
        raise AssertionError("the keyboard does not get there")


@contextmanager
def window(
    browser: Browser, *, size: Any = DESK, scheme: Scheme = "light", scripts: bool = True
) -> Iterator[Window]:
    """A new window. Afterwards, whatever the browser complained about is a failure.

    Args:
        scripts: the user lets pages run scripts.
    """
    context = browser.new_context(
        viewport=size, color_scheme=scheme, ignore_https_errors=True, java_script_enabled=scripts
    )
    made = Window(context, context.new_page())

    def complain(message: ConsoleMessage) -> None:
        # A page with an error status is logged as a resource that failed, which is no fault of the page.
        is_the_page = message.location.get("url") == made.page.url
        if message.type in ("error", "warning") and not is_the_page:
            made.complaints.append(message.text)

    made.page.on("console", complain)
    made.page.on("pageerror", lambda failure: made.complaints.append(str(failure)))
    try:
        yield made
    finally:
        context.close()
    assert made.complaints == []
