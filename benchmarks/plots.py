"""Plots as inline SVG: bars with intervals, and lines over sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from deerstore.workbench.bench import Interval

__all__ = ["bars", "duration", "lines"]

COLOURS = {
    "floor": "#9aa0a6",
    "deerstore": "#2e7d32",
    "SQLAlchemy ORM": "#c62828",
    "SQLAlchemy ORM, bulk INSERT": "#8e24aa",
    "SQLAlchemy Core": "#ef6c00",
    "aiosql": "#1565c0",
}
_PALETTE = ("#2e7d32", "#1565c0", "#c62828", "#ef6c00", "#6a1b9a", "#00838f")
_LABEL, _WIDTH, _ROW = 120, 560, 18


def duration(nanoseconds: float) -> str:
    """A time for people."""
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.0f} µs"
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e9 else f"{nanoseconds / 1e9:.2f} s"


def bars(rows: Sequence[tuple[str, Interval, str]]) -> str:
    """A bar per competitor from zero, its interval as a line, and a remark behind it."""
    most = max(interval.high for _, interval, _ in rows) or 1
    scale = (_WIDTH - _LABEL - 150) / most
    parts = []
    for number, (name, time, remark) in enumerate(rows):
        y = number * _ROW
        end = _LABEL + time.value * scale
        low, high = _LABEL + time.low * scale, _LABEL + time.high * scale
        parts.append(
            f'<text x="{_LABEL - 6}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{_LABEL}" y="{y + 3}" width="{max(1, end - _LABEL):.1f}" height="12" '
            f'fill="{COLOURS.get(name, "#555")}"/>'
            f'<path d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 6}v6M{high:.1f} {y + 6}v6" '
            f'stroke="#000" fill="none"/>'
            f'<text x="{high + 6:.1f}" y="{y + 13}">{duration(time.value)} {escape(remark)}</text>'
        )
    return _svg(_WIDTH, len(rows) * _ROW + 4, parts)


def lines(curves: dict[str, list[tuple[int, Interval]]]) -> str:
    """Time over size, both logarithmic."""
    width, height, left, bottom = 640, 230, 60, 26
    points = [point for curve in curves.values() for point in curve]
    sizes = [size for size, _ in points]
    x_low, x_high = math.log10(min(sizes)), max(math.log10(max(sizes)), math.log10(min(sizes)) + 1)
    y_low = math.floor(math.log10(min(time.value for _, time in points)))
    y_high = math.ceil(math.log10(max(time.value for _, time in points)))
    y_high = max(y_high, y_low + 1)

    def x(size: float) -> float:
        return left + (math.log10(size) - x_low) / (x_high - x_low) * (width - left - 210)

    def y(time: float) -> float:
        return 8 + (y_high - math.log10(time)) / (y_high - y_low) * (height - bottom - 8)

    parts = [
        f'<path d="M{left} {y(10**power):.1f}H{width - 210}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">'
        f"{duration(10**power)}</text>"
        for power in range(y_low, y_high + 1)
    ]
    parts += [
        f'<text x="{x(size):.1f}" y="{height - 8}" text-anchor="middle">{size:,}</text>'
        for size in sorted(set(sizes))
    ]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _PALETTE[number % len(_PALETTE)]
        path = "L".join(f"{x(size):.1f} {y(time.value):.1f}" for size, time in curve)
        parts.append(f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts += [
            f'<circle cx="{x(size):.1f}" cy="{y(time.value):.1f}" r="3" fill="{colour}"/>'
            for size, time in curve
        ]
        parts.append(
            f'<text x="{width - 200}" y="{20 + number * 16}" fill="{colour}">{escape(name)}</text>'
        )
    return _svg(width, height, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"{''.join(parts)}</svg>"
    )
