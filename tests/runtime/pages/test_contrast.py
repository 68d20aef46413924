"""The colours of the pages: text can be read, and controls can be told from what is around them."""

import re
from importlib.resources import files

import pytest

TEXT, CONTROL = 4.5, 3.0  # WCAG 2.2, success criteria 1.4.3 (AA) and 1.4.11

# Foreground, what it stands on, how far apart they must be.
PAIRS = [
    *((front, back, TEXT) for front in ("text", "quiet", "accent", "accent-strong") for back in ("card",)),
    *(("text", back, TEXT) for back in ("ground", "field", "chip")),
    ("quiet", "chip", TEXT),
    ("quiet", "ground", TEXT),
    ("on-accent", "accent", TEXT),
    ("on-accent", "accent-strong", TEXT),
    ("bad", "bad-ground", TEXT),
    ("warn", "warn-ground", TEXT),
    ("good", "good-ground", TEXT),
    ("field-line", "card", CONTROL),
    ("field-line", "field", CONTROL),
    ("focus", "card", CONTROL),
    ("bad", "field", CONTROL),
    ("accent", "card", CONTROL),
]


def _schemes() -> dict[str, dict[str, str]]:
    """Scheme -> name -> colour, from the style sheet itself."""
    text = (files("runtime.api.pages") / "static" / "style.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    named = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in (light, dark)]
    return {"light": named[0], "dark": named[0] | named[1]}


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_told_from_what_it_stands_on(scheme):
    """In both schemes, as far apart as the guidelines ask."""
    colours = _schemes()[scheme]

    close = {
        f"{front} on {back}": round(found, 2)
        for front, back, wanted in PAIRS
        if (found := _contrast(colours[front], colours[back])) < wanted
    }

    assert close == {}


def test_every_colour_is_named_once_for_both_schemes():
    """A rule that brings a colour of its own would look wrong in one of the two."""
    text = (files("runtime.api.pages") / "static" / "style.css").read_text("utf-8")
    rules = re.sub(r":root \{.*?\}", "", text, flags=re.DOTALL)
    schemes = _schemes()

    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", rules) == []
    assert schemes["light"].keys() == schemes["dark"].keys()
    assert set(re.findall(r"var\(--([a-z-]+)\)", rules)) <= schemes["light"].keys()
