"""What an analyst takes away of a release: pictures, files, and the lines of code that do the same.

`shown`, `picture` and `export` run in processes of limited time and memory, so they take what is stored of a release.
"""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as Web
from statsmodels.iolib.table import SimpleTable

import dpstats as dp
from dpstats.domain import Range
from dpstats.office.request import JSON, Request, from_result
from dpstats.summaries import Summary, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWING = threading.Lock()  # fonts and settings of matplotlib are those of the process


def pictures(result: Any) -> list[tuple[str, str]]:
    """The pictures that a result has, by kind, with their titles; the first is the main one."""
    if isinstance(result, dp.GLMResults):
        charts = [("coefficients", "Coefficients with their intervals")]
        return [*charts, ("shares", "Sampling error and privacy noise")] if result.has_errors else charts
    if isinstance(result, dp.Evaluation):
        titles = {"calibration": "Calibration", "roc": "ROC curve", "residuals": "Residuals"}
        return [(kind, title) for kind, title in titles.items() if getattr(result, kind) is not None]
    return []


def shown(stored: Mapping[str, JSON]) -> tuple[str, list[tuple[str, str]]]:
    result = from_result(stored)
    return summary_of(result).as_html(), pictures(result)


def picture(stored: Mapping[str, JSON], kind: str) -> bytes | None:
    """A picture as SVG; None if the release has none of this kind."""
    result = from_result(stored)
    return draw(lambda ax: getattr(dp.plots, kind)(result, ax=ax)) if kind in dict(pictures(result)) else None


def draw(plot: Callable[[Axes], object]) -> bytes:
    """What `plot` draws, as SVG; on a figure of its own, so that nothing is left behind in pyplot."""
    from matplotlib.figure import Figure

    with _DRAWING:
        figure, file = Figure(figsize=(7.0, 4.6), layout="constrained"), io.BytesIO()
        plot(figure.subplots())
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def summary_of(result: Any) -> Summary:
    if not isinstance(result, dp.BoughtRanges):
        return result.summary()
    inner = {name: one.inner for name, one in result.domain.items() if isinstance(one, Range) and one.inner}
    cells = [[format_number(end) for end in ends] for ends in inner.values()]
    table = SimpleTable(cells, headers=["from", "to"], stubs=list(inner), title="Intervals that hold nearly all rows")
    guarantee = f"{result.guarantee.eps:g}-differentially private for {result.guarantee.difference}"
    return Summary([table], [f"These ranges are {guarantee}."])


def exports() -> list[tuple[str, str]]:
    """The files that a release can be had as: their endings and names."""
    kinds = [("json", "JSON"), ("csv", "CSV"), ("tex", "LaTeX"), ("html", "HTML")]
    return [*kinds, ("docx", "Word")] if importlib.util.find_spec("docx") else kinds


def export(stored: Mapping[str, JSON], title: str, kind: str) -> tuple[bytes, str] | None:
    """The file with this ending, and its type; None for another ending."""
    if kind not in dict(exports()):
        return None
    result = from_result(stored)
    if kind == "docx":
        mime = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        return summary_of(result).as_docx(title), mime
    if kind == "json":  # `load` of the result's class reads it
        return json.dumps(stored, indent=1).encode(), "application/json"
    if kind == "csv":  # the numbers with all digits where there is a table of them, else as printed
        table = result.tidy().to_csv(index=False) if isinstance(result, dp.GLMResults) else None
        table = result.metrics.to_csv() if isinstance(result, dp.Evaluation) else table
        return without_formulas(table or str(summary_of(result).as_csv())).encode(), "text/csv"
    if kind == "tex":
        return summary_of(result).as_latex().encode(), "application/x-tex"
    head = f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    return f"{head}\n<h1>{html.escape(title)}</h1>\n{summary_of(result).as_html()}\n</html>\n".encode(), "text/html"


FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula of a spreadsheet begins with; those of full width too, which some read as the others."""


def without_formulas(text: str) -> str:
    """CSV in which no text is a formula to a spreadsheet: names of columns and candidates are chosen by analysts."""

    def inert(cell: str) -> str:
        try:
            float(cell)
        except ValueError:
            harmful = cell.strip(" ").startswith(("\t", "\r")) or cell.strip().startswith(FORMULAS)
            return f"'{cell}" if harmful else cell
        return cell

    file, rows = io.StringIO(), csv.reader(io.StringIO(text, newline=""), skipinitialspace=False)
    csv.writer(file, lineterminator="\n").writerows([inert(cell) for cell in row] for row in rows)
    return file.getvalue()


def code(web: Web, request: Request, release: str | None = None) -> dict[str, str | None]:
    """The lines of Python and R that do the same from the analyst's machine; None where R has none."""
    address = json.dumps(str(web.base_url).rstrip("/"))
    python = ["import dpstats as dp", "", f'office = dp.connect({address}, token="...")']
    r = ["library(dpstats)", "", f'office <- dp_connect({address}, token = "...")']
    if release is not None:
        python.append(f'fit = office.release("{release}")')
        r.append(f'fit <- dp_release(office, "{release}")')
    given = {**request.arguments} | ({} if request.label is None else {"label": request.label})
    first = f"office, {_r(given.pop('formula', None))}, {_r(request.dataset)}, eps = {_r(given.pop('eps'))}"
    python.append(f"fit = {request.python}")
    r.append(f"fit <- dp_glm({', '.join([first, *(f'{name} = {_r(value)}' for name, value in given.items())])})")
    return {"python": "\n".join(python), "r": "\n".join(r) if request.verb == "glm" else None}


def _r(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, list):
        return f"list({', '.join(map(_r, value))})"
    if isinstance(value, dict):
        return f"list({', '.join(f'`{name}` = {_r(one)}' for name, one in value.items())})"
    return json.dumps(value, ensure_ascii=False)
