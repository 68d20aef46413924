"""The table of client libraries in docs/clients.md, as tests read it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"


@dataclass(frozen=True)
class Library:
    """A row of the table.

    Attributes:
        settings: name -> value, with places such as `{issuer}` still in it.
        path: of the redirect URI, where the library has its own.
        pkce: who sees to it; what follows a semicolon is for other versions or uses of the library.
        naming, http_issuer: settings, or a statement where there are none.
    """

    name: str
    settings: Mapping[str, str]
    path: str
    pkce: str
    naming: str
    default_resource: str
    http_issuer: str
    tried: str

    @property
    def resource(self) -> dict[str, str]:
        """The settings by which it names a resource; none where it cannot."""
        return _settings(self.naming)

    @property
    def http(self) -> dict[str, str]:
        """Settings that only an http issuer needs."""
        return _settings(self.http_issuer)

    @property
    def refuses_http(self) -> bool:
        return self.http_issuer == "refused"

    def filled(self, settings: Mapping[str, str], places: Mapping[str, str]) -> dict[str, Any]:
        """These settings with a zone's values, as JSON says them, or as text."""
        filled = {}
        for name, value in settings.items():
            for place, meant in places.items():
                value = value.replace(f"{{{place}}}", meant)
            try:
                filled[name] = json.loads(value)
            except ValueError:
                filled[name] = value
        return filled


def libraries() -> list[Library]:
    """The rows of the table, from first to last."""
    table = PAGE.read_text("utf-8").partition("<!-- clients -->\n")[2].partition("<!-- /clients -->")[0]
    return [_library([cell.strip() for cell in row.split("|")[1:-1]]) for row in table.splitlines()[2:]]


def _library(cells: list[str]) -> Library:
    name, settings, path, pkce, naming, default_resource, http_issuer, tried = cells
    found = re.match(r"\[([^\]]+)\]", name)
    assert found is not None, name
    callback = re.fullmatch(r"`(/[\w/-]*)`", path)
    return Library(
        found[1],
        _settings(settings),
        callback[1] if callback else "/callback",
        pkce.partition(";")[0],
        naming,
        default_resource,
        http_issuer,
        tried,
    )


def _settings(cell: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in re.findall(r"`([^`]+)`", cell) if "=" in pair)
