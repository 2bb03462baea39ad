"""The picture of docs/architecture.md, from its tables: ``python -m benchmarks.architecture`` draws it anew."""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "_static" / "architecture.svg"

FLOORS = (
    "Public names",
    "Verbs",
    "Reports",
    "Plans",
    "Mechanisms",
    "Numbers",
    "Privacy",
    "Rows",
    "Public facts",
    "Foundation",
)
"""From the roof down, as they are drawn."""

WALKS = {"budget": "#D55E00", "row": "#0072B2"}
"""What walks, and the colour of its line (Okabe and Ito's, told apart by the colour-blind)."""

WIDTH, TOP, BAND, LANES, LANE = 960, 40, 54, 350, 300
LETTERS = 54
"""So many letters of room names fit on a line."""


NAMED = re.compile(r"`([\w/]+\.(?:py|md))(?::(\w+))?`")
"""A file, and perhaps a function of it, that the page names."""


class Room(NamedTuple):
    """A line of the page's table of rooms."""

    name: str
    floor: str
    holds: str


class Step(NamedTuple):
    """A step of a walk: a function of a file below dpstats."""

    file: str
    function: str

    @property
    def room(self) -> str:
        """The folder or file directly below dpstats that it lies in."""
        return self.file.split("/")[0].removesuffix(".py")


def rooms(page: str) -> list[Room]:
    """The table of rooms, in its order."""
    return [Room(*match) for match in re.findall(r"^\| `(\w+)` \| ([^|]+?) \| ([^|]+?) \|$", page, re.M)]


def walk(page: str, what: str) -> list[Step]:
    """The numbered steps of "The walk of a ..."."""
    section = page.split(f"## The walk of a {what}\n")[1].split("\n## ")[0]
    return [Step(*match) for match in re.findall(r"^\d+\. `([\w/]+\.py):(\w+)`", section, re.M)]


def picture(page: str) -> str:
    """The floors from the roof down with their rooms, and beside them each walk, from left to right."""
    parts, heights = [], {}
    for row, floor in enumerate(FLOORS):
        top = TOP + row * BAND
        heights[floor] = top + BAND / 2
        parts.append(f'<rect x="0" y="{top}" width="{WIDTH}" height="{BAND}" class="band{row % 2}"/>')
        parts.append(f'<text x="10" y="{top + 18}" class="floor">{escape(floor)}</text>')
        names = ", ".join(room.name for room in rooms(page) if room.floor == floor)
        for line, text in enumerate(textwrap.wrap(names, LETTERS)):
            parts.append(f'<text x="10" y="{top + 33 + 13 * line}" class="room">{escape(text)}</text>')
    floor_of = {room.name: room.floor for room in rooms(page)}
    for lane, (what, colour) in enumerate(WALKS.items()):
        left, steps = LANES + lane * (LANE + 10), walk(page, what)
        parts.append(f'<text x="{left}" y="24" class="key" fill="{colour}">The walk of a {what}</text>')
        places = [
            (left + 14 + number * (LANE - 40) / (len(steps) - 1), heights[floor_of[step.room]] - 5)
            for number, step in enumerate(steps)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for number, ((x, y), step) in enumerate(zip(places, steps, strict=True), 1):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" fill="{colour}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" class="number">{number}</text>')
            if number == 1 or steps[number - 2].room != step.room:
                parts.append(f'<text x="{x:.1f}" y="{y + 22:.1f}" class="stop">{escape(step.room)}</text>')
    style = (
        "text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#222}.floor{font-size:12px;font-weight:bold}"
        ".room{font-size:10.5px;fill:#555}.key{font-size:13px;font-weight:bold}.number{font-size:11px;fill:#fff;"
        "text-anchor:middle}.stop{font-size:8.5px;text-anchor:middle;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:3px}.band0{fill:#f4f5f7}.band1{fill:#fff}"
    )
    height = TOP + len(FLOORS) * BAND
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"><style>{style}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(PAGE.read_text()))
