"""The pictures of the README: small, complete, of the real pages, and taken again by one command."""

import re
import struct
from pathlib import Path

import pytest
from tests.support import chromium, pictures

pytestmark = pytest.mark.long

README = pictures.ROOT / "README.md"
MOST_BYTES = 150_000


def size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file. Spec: PNG section 11.2.1."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", picture.name
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def is_sound(folder: Path) -> None:
    """Every picture is there, small, and shows what its name says."""
    assert {each.name for each in folder.iterdir()} == set(pictures.NAMES)
    assert not [name for name in pictures.NAMES if (folder / name).stat().st_size >= MOST_BYTES]
    sizes = {name: size(folder / name) for name in pictures.NAMES if name.endswith(".png")}
    assert {width for width, _ in sizes.values()} == {pictures.WINDOW["width"]}
    assert not [name for name, (_, height) in sizes.items() if height < pictures.WINDOW["height"]]
    plan = (folder / "plan.svg").read_text("utf-8")
    assert "payroll-not-for-contractors" in plan
    assert "to&#160;update" in plan
    assert re.findall(r"(?:href|url)\W+https?:", plan) == [], "a picture fetches nothing"
    assert "/tmp" not in plan


def test_the_readme_shows_every_picture() -> None:
    """And each has a text for those who do not see it."""
    shown = re.findall(r"!\[([^\]]+)\]\(docs/pictures/([\w.-]+)\)", README.read_text("utf-8"))

    assert {name for _, name in shown} == set(pictures.NAMES)
    assert all(len(text) > 20 for text, _ in shown)
    is_sound(pictures.PICTURES)


def test_the_pictures_are_taken_of_the_real_pages(tmp_path: Path) -> None:
    """What `make pictures` does: a server, the example's configuration, and a browser."""
    if chromium.executable() is None:
        pytest.skip("no Chromium on this machine: install `chromium`, or Google Chrome")

    pictures.write(tmp_path / "pictures")

    is_sound(tmp_path / "pictures")
