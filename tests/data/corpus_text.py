"""Any result of dpstats as lines of text: what it shows in public, floats bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

WHOLE = 40
"""Arrays and tables of more elements are shortened."""

DIGITS = 6
"""To how many digits rough numbers are compared."""

ATTRIBUTES = (
    *("guarantee", "local_guarantee", "guarantees", "certified", "basis", "reason", "neighbours", "unit"),
    *("names", "bought", "noise_sd", "budget", "advice", "notes", "response", "radius", "completed", "title"),
    *("params", "scaled_params", "nobs", "scale", "selection", "noise_at_most", "df_model", "formula"),
    *("debiased", "bse", "tvalues", "pvalues", "identified", "variance_shares", "information"),
    *("metrics", "calibration", "roc", "residuals", "confusion", "rows", "rows_se", "table", "totals", "findings"),
    *("located", "chosen", "candidate", "fit", "best", "curves", "left_out", "frame", "n", "curvature", "target"),
    *("domain", "ranges", "first", "last", "deviation", "sums", "weights", "schedule", "times", "horizon"),
    *("effect", "sd", "statistic", "pvalue", "intervals", "df_constraint", "untested", "predicted_mean"),
    *("passed", "eps_lower", "hockey_stick", "event", "mu_central", "mu_local", "tau", "sigma_b", "sigma_u", "hash"),
    *("size", "count", "values", "eps", "delta", "local_eps", "share", "by", "citation", "licence", "description"),
)
"""Documented attributes, in the order in which they are recorded; of an object those that it has."""

CALLS = ("summary", "tidy", "glance", "conf_int", "cov_params", "uncertainty", "summary_frame", "anova", "excess_risk")
LATER = ("digest", "to_dict", "to_json")
"""Documented methods without arguments; of the later ones texts are kept as digests."""

ROUGH = set(CALLS[1:]) - {"glance"} | {
    *("debiased", "bse", "tvalues", "pvalues", "variance_shares", "scale", "predict", "get_prediction", "picture"),
    *("effect", "sd", "statistic", "pvalue", "intervals", "predicted_mean", "standard_errors", "information", "rough"),
}
"""What follows from released values by factorisations, by label; its bits are the machine's."""


class Rough:
    """Values to be compared as rough numbers, whatever their label is."""

    def __init__(self, value: object) -> None:
        self.value = value


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def number(value: float, rough: bool = False) -> str:
    if not np.isfinite(value):
        return str(float(value))
    return ("~" if rough else "") + float(value).hex()


def scalar(value: object, rough: bool = False) -> str | None:
    """One line's text; None if it takes several."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return number(float(value), rough)
    if isinstance(value, (complex, bytes, type(None))) or value is pd.NA or value is pd.NaT:
        return repr(value)
    if isinstance(value, pd.Timestamp):
        return "<time>"
    if isinstance(value, str):
        return None if "\n" in value else repr(value)
    return None


def array(value: np.ndarray, rough: bool) -> str:
    flat = [scalar(cell, rough) or repr(cell) for cell in value.ravel().tolist()]
    if len(flat) <= WHOLE:
        return f"{list(value.shape)} {' '.join(flat)}"
    # A digest of rough numbers is of fewer digits than the machine's bits can reach.
    cells = [f"{cell:.{DIGITS}g}" for cell in value.ravel().tolist()] if rough and value.dtype.kind == "f" else flat
    return f"{list(value.shape)} {' '.join(flat[:4])} ... {digest(' '.join(cells))}"


def lines(value: Any, label: str, rough: bool = False) -> Iterator[str]:
    """A value as lines, each with the label of what it is."""
    rough = rough or label.rpartition(".")[2] in ROUGH
    text = scalar(value, rough)
    if text is not None:
        yield f"{label}: {text}"
    elif isinstance(value, str):
        yield from (f"{label}| {line.rstrip()}" for line in value.rstrip("\n").split("\n"))
    elif isinstance(value, Rough):
        yield from lines(value.value, label, rough=True)
    elif isinstance(value, np.ndarray):
        yield f"{label}: {array(value, rough)}"
    elif isinstance(value, pd.Series):
        yield from lines(value.to_frame(str(value.name)), label, rough)
    elif isinstance(value, pd.DataFrame):
        yield f"{label}: {len(value)} rows of {', '.join(f'{name} {kind}' for name, kind in value.dtypes.items())}"
        if value.size > 6 * WHOLE:
            for name in value:
                yield f"{label}.{name}: {array(value[name].to_numpy(), rough)}"
        else:
            for place, row in zip(value.index, value.itertuples(index=False), strict=True):
                yield f"{label}[{place}]: {' '.join(scalar(cell, rough) or repr(cell) for cell in row)}"
    elif hasattr(value, "as_text"):
        yield from lines(value.as_text(), label)
    elif isinstance(value, BaseException):
        said = [str(value), *getattr(value, "__notes__", ())]
        yield from lines("\n".join([type(value).__name__, *said]), f"{label} raises")
    elif isinstance(value, Mapping) and not type(value).__module__.startswith("dpstats"):
        for key, one in value.items():
            yield from lines(one, f"{label}.{key}" if label else str(key), rough)
        if not value:
            yield f"{label}: {{}}"
    elif isinstance(value, (list, tuple, set, frozenset)):
        cells = [scalar(one, rough) for one in value]
        if None not in cells:
            yield f"{label}: {array(np.array(value, dtype=object), rough)}"
        else:
            for place, one in enumerate(value):
                yield from lines(one, f"{label}.{place}", rough)
    elif type(value).__module__.startswith("dpstats"):
        yield from public(value, label, rough)
    else:
        raise TypeError(f"{label}: a case must return what has a text, not {type(value)}")


def public(value: Any, label: str, rough: bool) -> Iterator[str]:
    """The documented attributes and methods of an object of dpstats, as far as it has them."""
    yield from lines(repr(value), f"{label}.repr")
    if type(value).__str__ is not object.__str__ and not hasattr(value, "summary"):
        yield from lines(str(value), f"{label}.str")
    for name in ATTRIBUTES:
        with contextlib.suppress(AttributeError):
            found = attribute(value, name)
            if found is not value and not callable(found):
                yield from lines(found, f"{label}.{name}", rough)
    for name in (*CALLS, *LATER):
        if callable(getattr(value, name, None)):
            try:
                found = attempt(getattr(value, name))
            except AttributeError:  # inherited, and not for this class
                continue
            if name == "to_dict":
                found = outline(found, f"{label}.{name}") if isinstance(found, Mapping) else found
            elif name in LATER and isinstance(found, str):
                found = digest(found)
            yield from lines(found, f"{label}.{name}", rough)
    if isinstance(value, Mapping):
        for key in value:
            yield from lines(value[key], f"{label}[{key}]", rough)


def attribute(value: Any, name: str) -> object:
    """An attribute; what it raises, if it is not released; AttributeError if there is none such."""
    try:
        return getattr(value, name)
    except dp.errors.DPStatsError as error:
        return error


def attempt(call: Callable[[], object]) -> object:
    """What a call returns, or the error of dpstats that it raises."""
    try:
        return call()
    except dp.errors.DPStatsError as error:
        return error


def outline(stored: Mapping[str, Any], label: str, depth: int = 2) -> dict[str, Any]:
    """A stored form: plain values as they are, and digests of what lies deeper, so that a difference has a place."""
    found: dict[str, Any] = {}
    for key, value in stored.items():
        if isinstance(value, Mapping) and depth:
            found[key] = outline(value, f"{label}.{key}", depth - 1)
        elif scalar(value) is None:
            rough = label.rpartition(".")[2] in ROUGH or key in ROUGH
            found[key] = digest("\n".join(lines(plain(value), "", rough)))
        else:
            found[key] = value
    return found


def plain(value: Any) -> Any:
    """What JSON keeps of a stored form."""
    return json.loads(json.dumps(value))
