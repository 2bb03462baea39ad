"""What a picture shows, read off its artists."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import ErrorbarContainer
from matplotlib.image import imread
from matplotlib.text import Text
from numpy.typing import NDArray

from dpstats.plots.style import CAPTION

Float = NDArray[np.float64]


def caption(ax: Axes) -> str:
    """The caption on one line; there is exactly one."""
    (found,) = (text for text in ax.texts if text.get_gid() == CAPTION)
    return " ".join(found.get_text().split())


def bars(ax: Axes, label: str, axis: int) -> tuple[Float, Float]:
    """Points, shape (k, 2), and ends of their bars along an axis, shape (k, 2), of the bars with a label."""
    (found,) = (c for c in ax.containers if isinstance(c, ErrorbarContainer) and c.get_label() == label)
    line, _, collections = found
    segments = np.array(collections[axis if len(collections) > 1 else 0].get_segments())
    points = segments.mean(axis=1) if line is None else line.get_xydata()
    return np.asarray(points), segments[:, :, axis]


def rectangles(ax: Axes, label: str) -> Float:
    """Left end, right end and row of the horizontal bars with a label, shape (k, 3)."""
    (found,) = (c for c in ax.containers if c.get_label() == label and not isinstance(c, ErrorbarContainer))
    return np.array([(p.get_x(), p.get_x() + p.get_width(), p.get_y() + p.get_height() / 2) for p in found])


def marks(ax: Axes, label: str) -> Float:
    """Points drawn with a label, shape (k, 2)."""
    (found,) = (line for line in ax.lines if line.get_label() == label)
    return np.asarray(found.get_xydata())


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def rendered(ax: Axes) -> NDArray[np.float32]:
    """The picture as drawn, shape (height, width, 4)."""
    stream = io.BytesIO()
    ax.figure.savefig(stream, format="png", dpi=60)
    stream.seek(0)
    return imread(stream)


def faults(ax: Axes) -> list[str]:
    """Texts that are cut off by the figure's edge, or that lie on one another."""
    figure = ax.figure
    figure.draw_without_rendering()
    edge = figure.bbox
    ticks = [*_drawn(ax.xaxis), *_drawn(ax.yaxis)]
    shown = [*ax.texts, ax.xaxis.label, ax.yaxis.label, *(child for child in ax.get_children() if type(child) is Text)]
    found = ax.get_legend()
    boxes = {}
    for number, text in enumerate([*dict.fromkeys([*shown, *ticks])]):
        if text.get_visible() and text.get_text():
            boxes[f"{text.get_text()[:30]!r} ({number})"] = text.get_window_extent()
    if found is not None:
        boxes["legend"] = found.get_window_extent()
    said = [
        f"{name} is cut off"
        for name, box in boxes.items()
        if box.x0 < edge.x0 - 1 or box.x1 > edge.x1 + 1 or box.y0 < edge.y0 - 1 or box.y1 > edge.y1 + 1
    ]
    names = list(boxes)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            one, other = boxes[first], boxes[second]
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            upward = min(one.y1, other.y1) - max(one.y0, other.y0)
            if across > 2 and upward > 2 and not any(turned in (first, second) for turned in _turned(ticks)):
                said.append(f"{first} lies on {second}")
    return said


def _drawn(axis: Axis) -> list[Text]:
    """Labels of the ticks within view."""
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def _turned(ticks: list[Text]) -> list[str]:
    """Slanted labels: their boxes overlap where they do not."""
    return [f"{text.get_text()[:30]!r}" for text in ticks if text.get_rotation() % 90]


def band_of(ax: Axes) -> np.ndarray:
    """Corners of the one band."""
    (band,) = (part for part in ax.collections if type(part).__name__ == "FillBetweenPolyCollection")
    return band.get_paths()[0].vertices
