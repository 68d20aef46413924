"""Plots as SVG text: bars, and lines over categories. The same values make the same text on every machine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_COLOURS = ("#1f5fa8", "#c2571a", "#2e7d4f", "#7a4fa3", "#a8324a", "#4d6a78", "#8a7318", "#0f7f8c", "#555555")
_WIDTH, _LABELS, _ROW = 860, 250, 30
_STYLE = "font-family:system-ui,sans-serif;font-size:13px;fill:#222"


@dataclass(frozen=True)
class Bar:
    """A value with the marks it is compared with.

    Attributes:
        marks: words -> value.
    """

    label: str
    value: float
    marks: Mapping[str, float]


def bars(title: str, unit: str, given: Sequence[Bar]) -> str:
    """Horizontal bars from zero, with a tick for each mark."""
    most = max((max(each.value, *each.marks.values(), 0.0) for each in given), default=1.0) or 1.0
    room = _WIDTH - _LABELS - 110
    parts = []
    for place, bar in enumerate(given):
        top = 44 + place * _ROW
        width = room * bar.value / most
        parts.append(_text(_LABELS - 8, top + 15, bar.label, anchor="end"))
        parts.append(
            f'<rect x="{_LABELS}" y="{top}" width="{width:.1f}" height="20" fill="{_COLOURS[0]}" rx="2"/>'
        )
        for words, value in bar.marks.items():
            x = _LABELS + room * value / most
            parts.append(
                f'<line x1="{x:.1f}" y1="{top - 3}" x2="{x:.1f}" y2="{top + 23}" stroke="{_COLOURS[1]}"'
                f' stroke-width="2"><title>{escape(words)}: {value:,.0f} {escape(unit)}</title></line>'
            )
        end = _LABELS + max(width, *(room * value / most for value in bar.marks.values()), 0.0)
        parts.append(_text(end + 8, top + 15, f"{bar.value:,.0f}"))
    return _picture(title, 60 + len(given) * _ROW, parts)


def lines(title: str, unit: str, names: Sequence[str], given: Mapping[str, Sequence[float]]) -> str:
    """A line for each series over the same categories; the vertical axis is logarithmic.

    Args:
        names: of the categories.
        given: series -> a value above zero for each category.
    """
    values = [value for series in given.values() for value in series if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    left, top, width, height = 70, 44, _WIDTH - 320, 300
    parts = []
    for power in range(low, high + 1):
        y = top + height * (high - power) / (high - low)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(left - 6, y + 4, f"{10**power:g}", anchor="end"))
    parts.append(_text(left, top - 10, unit))
    xs = [left + width * place / max(1, len(names) - 1) for place in range(len(names))]
    parts += [_text(x, top + height + 20, name, anchor="middle") for x, name in zip(xs, names, strict=True)]
    for place, (series, told) in enumerate(given.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        points = " ".join(
            f"{x:.1f},{top + height * (high - math.log10(max(value, 10**low))) / (high - low):.1f}"
            for x, value in zip(xs, told, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = top + 14 + place * 22
        parts.append(f'<rect x="{left + width + 24}" y="{y - 8}" width="14" height="4" fill="{colour}"/>')
        parts.append(_text(left + width + 44, y, series))
    return _picture(title, top + height + 40, parts)


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    inner = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#fff"/>\n'
        f"{_text(16, 22, title, bold=True)}\n{inner}\n</svg>\n"
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ";font-weight:600" if bold else ""
    style = f'text-anchor="{anchor}" style="{_STYLE}{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
