"""The one style of all pictures: colours, bars, labels and the caption that says what is protected."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag, safe_repr
from dpstats.errors import ArgumentError
from dpstats.ledger import Ledger
from dpstats.privacy.guarantee import Guarantee
from dpstats.wording import part_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

Float = NDArray[np.float64]

INK, GREY, PALE = "#222222", "#6e6e6e", "#d9d9d9"
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)  # the colour-blind tell them apart (Okabe & Ito 2008)

MARKERS = ("o", "s", "^", "D", "v", "P")
LABEL_SIZE, TICK_SIZE, CAPTION_SIZE = 10.5, 9.5, 9.0
WIDTH, HEIGHT = 7.0, 4.6
NAME_WIDTH, LEAST_NAME = 34, 14  # letters of a row's name
NAMES_PART = 0.55  # of the axes' width, at most, for these names
COLUMN_WIDTH = 36  # letters of a label in one of two columns of a legend
CAPTION = "caption"  # the gid of a picture's caption
UNPROTECTED = "NO GUARANTEE is claimed"  # the start of a sentence that every picture keeps
PROTECTED = "Protected: "  # the start of the sentence on the guarantee
LOW = 3.4  # inches of a row of axes that leave the caption little room
LOW_TEXT = 0.75  # the size of text in these, of what it is elsewhere
SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
WORD_ENDS = " :,;[(=*+/_-"  # a text may be cut after these


def new_axes(ax: Axes | None, height: float = HEIGHT, width: float = WIDTH) -> Axes:
    """`ax` itself, or axes of a new figure of so many inches, in our style; ArgumentError without matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ArgumentError("pictures need the package matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    elif not hasattr(ax, "get_figure"):
        raise ArgumentError(f"ax must be matplotlib axes, got {type(ax).__name__}")
    assert ax is not None
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_layout_engine() is None:
        figure.set_layout_engine("tight")  # leaves room for the caption, and `tight_layout` keeps it
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(labelsize=_points(ax, TICK_SIZE), colors=INK, length=3)
    ax.grid(True, color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def name_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Labels of both axes, in plain text."""
    across = ax.set_xlabel(shorten(xlabel, 70), fontsize=_points(ax, LABEL_SIZE), color=INK)
    literal_text([across, ax.set_ylabel(shorten(ylabel, 50), fontsize=_points(ax, LABEL_SIZE), color=INK)])


def name_rows(ax: Axes, names: Sequence[object]) -> None:
    """Names down the left side, the first one on top; in narrow axes they are shorter."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    width = ax.get_window_extent().width / figure.dpi * 72
    letters = min(NAME_WIDTH, max(LEAST_NAME, int(NAMES_PART * _characters(width, _points(ax, TICK_SIZE)))))
    ax.set_yticks(np.arange(len(names)), [shorten(name, letters) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(False, axis="y")
    literal_text(ax.get_yticklabels())


def literal_text(texts: Iterable[Text]) -> None:
    """Show every character as it is: a dollar sign in a column's name starts no formula."""
    for text in texts:
        text.set_parse_math(False)


def show_legend(ax: Axes, **arguments: Any) -> None:
    """A legend of everything that has a label, in plain text."""
    shown = _labelled(ax)
    if shown:
        legend = ax.legend(
            list(shown.values()), list(shown), fontsize=_points(ax, TICK_SIZE), frameon=False, **arguments
        )
        literal_text(legend.get_texts())


def _legend_above(ax: Axes) -> int:
    """A legend above the axes, in two columns where they have room; returns its lines.

    Where one column is wider than the axes it ends with them: to their left, names of rows leave room.
    """
    labels, figure = _labelled(ax), ax.get_figure(root=True)
    assert figure is not None
    ways = [(2, 0.0), (1, 0.0), (1, 1.0)]
    for abreast, at in ways if max(map(len, labels), default=0) <= COLUMN_WIDTH else ways[1:]:
        place = {"loc": "lower right" if at else "lower left", "bbox_to_anchor": (at, 1.0)}
        show_legend(ax, **place, ncols=abreast, borderaxespad=0.1, handlelength=1.4)
        shown = ax.get_legend()
        if shown is None:
            break
        shown.set_in_layout(False)  # the title's pad leaves room for it; narrow axes are not made narrower still
        figure.draw_without_rendering()
        if shown.get_window_extent().width <= ax.get_window_extent().width:
            break
    return -(-len(labels) // abreast)


def _labelled(ax: Axes) -> dict[str, Any]:
    """What a legend shows, by label: the first of each."""
    shown: dict[str, Any] = {}
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        shown.setdefault(label, handle)
    return shown


def finish(
    ax: Axes, title: str, *sentences: str, labels: tuple[str, str], legend: str | None = None, caption: bool = True
) -> Axes:
    """Labels of both axes, legend, title and caption. It comes last: title and caption are as wide as the axes.

    `legend` is a place inside the axes, or "above" them, below the title, for pictures that are full; None for none.
    Without a `caption` only that nothing is guaranteed is said, where that is so, and in axes that are low only what is
    guaranteed. A caption that the axes have goes on.
    """
    kept = (UNPROTECTED,) if not check_flag("caption", caption) else (UNPROTECTED, PROTECTED) if _is_low(ax) else ("",)
    sentences = tuple(sentence for sentence in sentences if sentence.startswith(kept))
    name_axes(ax, *labels)
    lines_above = 0
    if legend == "above":
        lines_above = _legend_above(ax)
    elif legend is not None:
        show_legend(ax, loc=legend)
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    width = ax.get_window_extent().width / figure.dpi * 72
    ax.xaxis.label.set_text(wrapped(ax.get_xlabel(), _characters(width, _points(ax, LABEL_SIZE))))
    heading = ax.set_title(
        wrapped(title, _characters(width, _points(ax, LABEL_SIZE + 1))),
        loc="left",
        fontsize=_points(ax, LABEL_SIZE + 1),
        color=INK,
        pad=_points(ax, 10 + 1.7 * TICK_SIZE * lines_above),
    )
    before = [text for text in ax.texts if text.get_gid() == CAPTION]
    words = " ".join([*(one.get_text() for one in before), *filter(None, sentences)]).replace("\n", " ")
    for one in before:
        one.remove()
    # Nothing is said twice. An equation stays whole: no-break spaces are no places to wrap at.
    words = " ".join(dict.fromkeys(filter(None, SENTENCE_ENDS.split(words)))).replace(" = ", "\u00a0=\u00a0")
    text = textwrap.fill(words, _characters(width, _points(ax, CAPTION_SIZE))).replace("\u00a0", " ")
    if not text:
        literal_text([heading])
        return ax
    below = ax.annotate(
        text,
        (0.0, 0.0),
        xytext=(0, -7),
        xycoords=("axes fraction", ax.xaxis.label),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize=_points(ax, CAPTION_SIZE),
        color=GREY,
        linespacing=1.35,
        annotation_clip=False,
    )
    below.set_gid(CAPTION)
    literal_text([heading, below])
    return ax


def _is_low(ax: Axes) -> bool:
    """Whether axes are one of several rows that have no room for a whole caption."""
    place, figure = ax.get_subplotspec(), ax.get_figure(root=True)
    if place is None or figure is None:
        return False
    rows, first, last = place.get_gridspec().nrows, place.rowspan.start, place.rowspan.stop
    return rows > 1 and figure.get_figheight() * (last - first) / rows < LOW


def _points(ax: Axes, size: float) -> float:
    """The size of a text in these axes, of the one that it has in a picture by itself."""
    return LOW_TEXT * size if _is_low(ax) else size


def _characters(points: float, size: float) -> int:
    """About how many characters of a font of `size` fit."""
    return max(int(points / (0.56 * size)), 24)


def promise(guarantee: Guarantee, what: str) -> str:
    """What is protected, in a sentence; `what` is released under the guarantee."""
    if not guarantee.certified:
        return f"{UNPROTECTED} for {what}: {guarantee.reason}."
    budget = f"eps = {guarantee.eps:.4g}" + (f", delta = {guarantee.delta:.4g}" if guarantee.delta else "")
    return f"{PROTECTED}{neighbours(guarantee)}. The guarantee for {what} is {budget}."


def neighbours(protected: Guarantee | Ledger) -> str:
    """What neighbouring data differ by, in words."""
    unit = "row" if protected.unit is None else protected.unit
    one = {"add_remove": f"whether any one {unit} is in the data", "replace_one": f"the contents of any one {unit}"}
    return one[protected.adjacency]


def shorten(name: object, width: int) -> str:
    """The name cut in its middle to at most `width` characters, at words: levels of a factor differ at the end."""
    text = _printable(name)
    if len(text) <= width:
        return text
    front = (width - 1) // 2
    start = _word_end(text, range(front, front // 2, -1), front)
    first = len(text) - (width - 1 - start)
    rest = _word_end(text, range(first, (first + len(text)) // 2), first)
    return f"{text[:start].rstrip()}…{text[rest:]}"


def wrapped(name: object, width: int) -> str:
    """The text on two lines of at most `width` characters, broken and at need shortened at words."""
    text = _printable(name)
    if len(text) <= width:
        return text
    at = _word_end(text, range(width, width // 2, -1), width)
    return f"{text[:at].rstrip()}\n{shorten(text[at:].lstrip(), width)}"


def _word_end(text: str, places: range, default: int) -> int:
    """The first of some places behind a blank, or else behind another sign."""
    for ends in (" ", WORD_ENDS):
        for at in places:
            if text[at - 1] in ends:
                return at
    return default


def _printable(name: object) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(name))


def bars(ax: Axes, at: Float, values: Float, ends: Float, *, across: bool = False, **style: Any) -> Any:
    """Points with bars from ends[:, 0] to ends[:, 1], shape (k, 2); upright, or across for rows of names."""
    sizes = np.maximum(np.stack([values - ends[:, 0], ends[:, 1] - values]), 0.0)
    style = {"fmt": "o", "color": BLUE, "markersize": 5, "elinewidth": 1.4, "capsize": 0, "zorder": 3, **style}
    return ax.errorbar(values, at, xerr=sizes, **style) if across else ax.errorbar(at, values, yerr=sizes, **style)


def check_subject(name: str, value: object, shows: str, made: str) -> None:
    """Raise ArgumentError unless a picture can show `value`: it has the attribute `shows`; `made` says what has."""
    if isinstance(value, (type, pd.DataFrame, pd.Series)) or not hasattr(value, shows):
        raise ArgumentError(f"{name} must be {made}; got {safe_repr(value)}{part_of(value)}")


def by_label(name: str, value: Any) -> dict[str, Any]:
    """What to draw side by side, by label: a dict as it is, a list numbered; one alone has no label."""
    if isinstance(value, dict):  # results by group are a mapping too
        if not value or not all(isinstance(label, str) and label for label in value):
            raise ArgumentError(f"{name}: the keys of a dict are labels, such as 'small', and there must be some")
        return dict(value)
    if isinstance(value, (list, tuple)):
        if not value:
            raise ArgumentError(f"{name} must not be an empty list")
        return {f"({number})": one for number, one in enumerate(value, 1)}
    return {"": value}


FIT = "a fit, such as dp.glm returns"
EVALUATION = "an evaluation, as dp.evaluate returns"
