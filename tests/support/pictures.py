"""The pictures of the README: pages of a real zone in Chromium, and a plan as a terminal shows it.

`make pictures` writes docs/pictures/. They show examples/config, as the guide applies it.
"""

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text
from tests.support import chromium
from tests.support.terminals import on_a_terminal

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import acme  # noqa: E402

from runtime.domain.oauth.pkce import challenge_of  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
NAMES = ("consent.png", "plan.svg", "sign-in.png")
EMAIL, PASSWORD = "ada@acme.example", "correct horse battery"
CALLBACK = "http://localhost:8600/callback"
RESOURCES = ("https://tools.acme.example/mcp", "https://payroll.acme.example/api")
WINDOW = {"width": 720, "height": 640}
COLUMNS = 110
_POLICY = "product/policies/payroll-not-for-contractors.cedar"
_LIFTED = """resource == Resource::"https://payroll.acme.example/api"
)
unless { context.scopes == ["payslips.read"] };"""


def write(folder: Path) -> None:
    """Write the pictures into a folder. Raises Unexpected when there is no Chromium."""
    program = chromium.executable()
    if program is None:
        raise acme.Unexpected("no Chromium on this machine: install `chromium`, or Google Chrome")
    folder.mkdir(parents=True, exist_ok=True)
    with _company() as server:
        (folder / "plan.svg").write_text(_plan(server), "utf-8")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=list(chromium.FLAGS))
            context = browser.new_context(viewport=WINDOW, color_scheme="light")
            _photograph(server, context.new_page(), folder)
            browser.close()


@contextmanager
def _company() -> Iterator[acme.Server]:
    """A running server with examples/config applied, and Ada."""
    directory = Path(tempfile.mkdtemp(prefix="zonewright-pictures-"))
    server = acme.Server(directory)
    try:
        server.init()
        server.start()
        secrets = str(directory / "secrets")
        server.zonectl("apply", str(ROOT / "examples/config"), "--yes", "--secrets-dir", secrets)
        user = ("user", "add", "--zone", "acme-workforce", "--email", EMAIL, "--password-stdin")
        server.run(*user, stdin=PASSWORD)
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _plan(server: acme.Server) -> str:
    """A plan of a copy of the configuration in which two files were changed, as SVG."""
    folder = server.directory / "identity"
    shutil.copytree(ROOT / "examples/config", folder)
    _replace(folder / _POLICY, r"resource == [^\n]+\n\);", _LIFTED)
    _replace(folder / "product/apis.yaml", r"events\.write\]", "events.write, events.share]")
    settings = {name: value for name, value in server.client_settings.items() if name != "NO_COLOR"}
    settings |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    printed = on_a_terminal(
        [*acme.command("zonectl"), "plan", "."], folder, acme.clean_environment(**settings)
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed.replace("\r\n", "\n").strip()))
    drawn = console.export_svg(title="zonectl plan .", unique_id="plan", theme=DEFAULT_TERMINAL_THEME)
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # they name an address elsewhere


def _replace(file: Path, pattern: str, text: str) -> None:
    before = file.read_text("utf-8")
    after = re.sub(pattern, lambda _: text, before)
    if after == before:
        raise acme.Unexpected(f"{file.name} has no `{pattern}` any more")
    file.write_text(after, "utf-8")


def _photograph(server: acme.Server, page: Page, folder: Path) -> None:
    """The sign-in page of the workforce zone, and the consent page of the product zone."""
    zone = server.zone("acme-product")["protocols"]["oauth2"]
    query = [
        ("response_type", "code"),
        ("client_id", "calendar-agent"),
        ("redirect_uri", CALLBACK),
        ("scope", "openid email"),
        ("code_challenge", challenge_of("of a code that nobody redeems: the pictures end before it")),
        ("code_challenge_method", "S256"),
        *(("resource", each) for each in RESOURCES),
    ]
    page.goto(f"{zone['authorization_endpoint']}?{urlencode(query)}")
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.screenshot(path=folder / "sign-in.png", full_page=True)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("button", name="Allow", exact=True).wait_for()
    page.screenshot(path=folder / "consent.png", full_page=True)


if __name__ == "__main__":
    write(PICTURES)
