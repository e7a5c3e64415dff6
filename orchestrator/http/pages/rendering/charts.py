"""Charts as SVG without styles or scripts: positions in percent, so that text keeps its size at any width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from hardwon.text.pluralize import count_of

MAX_BARS: Final = 30
"""Attempts that are drawn one by one; more are drawn as one bar in proportion."""
_STEP: Final = 6
_BAR: Final = 4
_WHOLE: Final = 110
"""Width of a bar in proportion, in pixels."""


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def draw_strip(outcomes: str, *, successes: int, attempts: int, height: int = 20, scale: float = 1) -> Markup:
    """Draw attempts: up for one that worked, down for one that failed, dotted where none was made.

    `outcomes`: a letter for each of the latest, `w` or `f`, the oldest first; without any, failures are drawn last.
    More than `MAX_BARS` are one bar in the proportion of all.
    """
    label = f"{successes} of {count_of(attempts, 'attempt')} worked" if attempts else "not tried yet"
    middle = height / 2
    outcomes = outcomes or "w" * min(successes, MAX_BARS) + "f" * min(attempts - successes, MAX_BARS)
    if not attempts:
        width: float = 60
        marks = [f'<line class="dotted" x1="0" x2="60" y1="{_number(middle)}" y2="{_number(middle)}"/>']
    elif attempts > MAX_BARS or len(outcomes) < attempts:
        width, marks = _WHOLE + 2, _proportion(successes, attempts, middle)
    else:
        step, bar = _STEP * scale, _BAR * scale
        width = max(step * len(outcomes), 4 * step)
        marks = [f'<path class="base" d="M0 {_number(middle)}H{_number(width)}"/>']
        for letter, css, top in (("w", "fill-good", 1.0), ("f", "fill-poor", middle + 1)):
            places = [place for place, each in enumerate(outcomes) if each == letter]
            box = f"h{_number(bar)}v{_number(middle - 2)}h-{_number(bar)}z"
            if places:
                path = "".join(f"M{_number(place * step)} {_number(top)}{box}" for place in places)
                marks.append(f'<path class="{css}" d="{path}"/>')
    return _svg("strip", label, marks, width=width, height=height)


def _proportion(successes: int, attempts: int, middle: float) -> list[str]:
    """Return a bar whose parts are the shares of attempts that worked and that failed."""
    worked = successes / attempts * _WHOLE
    thick = max(5.0, middle * 0.6)
    marks = [f'<line class="base" x1="0" x2="{_WHOLE + 2}" y1="{_number(middle)}" y2="{_number(middle)}"/>']
    if successes:
        marks.append(
            f'<rect class="fill-good" x="0" y="{_number(middle - thick - 1)}" width="{_number(max(2, worked))}"'
            f' height="{_number(thick)}" rx="1"/>'
        )
    if successes < attempts:
        marks.append(
            f'<rect class="fill-poor" x="{_number(min(worked, _WHOLE - 2))}" y="{_number(middle + 1)}"'
            f' width="{_number(max(4, _WHOLE - worked))}" height="{_number(thick)}" rx="1"/>'
        )
    return marks


def draw_gauge(value: float, *, bar: float | None = None, passes: bool = True, label: str = "") -> Markup:
    """Draw a value from 0 to 1 as a line, with a tick where the bar is that it has to reach."""
    share = min(1.0, max(0.0, value))
    line = '<rect class="{}" x="0" y="4" width="{}%" height="6" rx="3"/>'
    marks = [
        line.format("fill-track", 100),
        line.format("fill-good" if passes else "fill-mute", _number(share * 100)),
    ]
    if bar is not None:
        place = _number(min(1.0, max(0.0, bar)) * 100)
        marks.append(f'<line class="tick" x1="{place}%" x2="{place}%" y1="1" y2="13"/>')
    return _svg("gauge", label or f"{value:.2f}", marks)


def draw_bars(values: Sequence[float], label: str) -> Markup:
    """Draw one bar for each value, the highest as high as the chart."""
    most, width = max(values, default=0) or 1, 100 / max(1, len(values))
    marks = [
        f'<rect class="fill-mute" x="{_number(place * width)}%" width="{_number(width * 0.72)}%"'
        f' y="{_number(100 - value / most * 100)}%" height="{_number(value / most * 100)}%"/>'
        for place, value in enumerate(values)
        if value
    ]
    marks.append('<line class="base" x1="0" x2="100%" y1="100%" y2="100%"/>')
    return _svg("bars", label, marks)


def draw_outcomes(periods: Sequence[tuple[str, int, int]], label: str) -> Markup:
    """Draw, for each period with its name, what worked above a line and what failed below it."""
    most = max((max(worked, failed) for _, worked, failed in periods), default=0) or 1
    width, half = 100 / max(1, len(periods)), 40
    marks = ['<line class="base" x1="0" x2="100%" y1="44%" y2="44%"/>']
    for place, (name, worked, failed) in enumerate(periods):
        left = place * width
        for number, css, up in ((worked, "fill-good", True), (failed, "fill-poor", False)):
            if number:
                high = number / most * half
                marks.append(
                    f'<rect class="{css}" x="{_number(left + width * 0.2)}%" width="{_number(width * 0.6)}%"'
                    f' y="{_number(44 - high if up else 44)}%" height="{_number(high)}%"/>'
                )
        marks.append(
            f'<rect class="hover" x="{_number(left)}%" width="{_number(width)}%" y="0" height="100%">'
            f"<title>{Markup.escape(name)}: {worked} worked, {failed} failed</title></rect>"
        )
        if place % max(1, len(periods) // 4) == 0:
            marks.append(f'<text x="{_number(left)}%" y="100%" dy="-2">{Markup.escape(name)}</text>')
    return _svg("outcomes", label, marks)


def draw_lines(lines: Sequence[tuple[str, str, Sequence[float | None]]], names: Sequence[str], label: str) -> Markup:
    """Draw shares from 0 to 1 over time, each line with its class and the words at its end; gaps where None is."""
    marks: list[str] = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        place = _number(100 - share * 100)
        marks += [
            f'<line class="rule" x1="0" x2="100%" y1="{place}%" y2="{place}%"/>',
            f'<text x="0" dx="-8" y="{place}%" dy="4" text-anchor="end">{share:.0%}</text>',
        ]
    steps = max(1, len(names) - 1)
    paths = "".join(f'<path class="line {css}" d="{_path(values, steps)}"/>' for css, _, values in lines)
    marks.append(f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">{paths}</svg>')
    for css, words, values in lines:
        last = next((value for value in reversed(values) if value is not None), None)
        if last is not None:
            marks.append(
                f'<text class="end {css}" x="100%" dx="8" y="{_number(100 - last * 100)}%" dy="4">'
                f"{Markup.escape(words)}</text>"
            )
    for at in (0, len(names) - 1):
        if names and at >= 0:
            anchor = "start" if at == 0 else "end"
            marks.append(
                f'<text x="{_number(at / steps * 100)}%" y="100%" dy="20" text-anchor="{anchor}">'
                f"{Markup.escape(names[at])}</text>"
            )
    return _svg("lines", label, marks)


def _path(values: Sequence[float | None], steps: int) -> str:
    """Return the path of a line through the values, begun again behind each gap."""
    drawn, down = [], False
    for place, value in enumerate(values):
        if value is not None:
            drawn.append(f"{'L' if down else 'M'}{_number(place / steps * 100)} {_number(100 - value * 100)}")
        down = value is not None
    return " ".join(drawn)


def _svg(
    css: str, label: str, marks: Sequence[str], *, width: float | None = None, height: int | None = None
) -> Markup:
    size = "" if width is None else f' width="{_number(width)}" height="{height}"'
    head = Markup('<svg class="{}" role="img" aria-label="{}"').format(css, label)
    return Markup(f"{head}{size}>{''.join(marks)}</svg>")  # noqa: S704 - numbers and our own classes; words are escaped
