"""Any result of dpstats as lines of text: what it shows in public, with floats in hexadecimal.

Two records are compared with `alike`. What a fit releases (`scaled_params`) lies on a lattice and is the same on every
machine: its floats are marked with "=" and compared bit for bit. All others follow from factorisations, long sums and
exponentials, whose last bits are those of the machine's BLAS and processor: they are compared to 6 digits, and so are
figures of eight digits or more within texts. Digests, marked with "#", are of such floats too: only the machine that
has recorded them compares them (``make_corpus.py --check --exact``), and everything else as it is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

WHOLE = 40
"""Arrays of more elements are shortened, and tables of more rows."""

DIGITS = 6
"""To how many digits floats are compared that are the machine's."""

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

LATTICE = ("napp", "objective", "output", "posterior")
"""Methods whose released coefficients are the same on every machine."""

NUMBER = re.compile(r"=?-?0x[01]\.[0-9a-f]+p[+-]\d+|(?<![\w.])-?\d+\.\d+(?:e[+-]\d+)?(?![\w.])")


def digest(text: str) -> str:
    return "#" + hashlib.sha256(text.encode()).hexdigest()[:16]


def scalar(value: object, mark: str = "") -> str | None:
    """One line's text; None if it takes several."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return mark + float(value).hex() if np.isfinite(value) else str(float(value))
    if isinstance(value, (complex, bytes, type(None))) or value is pd.NA or value is pd.NaT:
        return repr(value)
    if isinstance(value, pd.Timestamp):
        return "<time>"
    if isinstance(value, str):
        return None if "\n" in value else repr(value)
    return None


def array(value: np.ndarray, mark: str) -> str:
    flat = [scalar(cell, mark) or repr(cell) for cell in value.ravel().tolist()]
    whole = len(flat) <= WHOLE
    return " ".join([str(list(value.shape)), *(flat if whole else [*flat[:6], "...", digest(" ".join(flat))])])


def lines(value: Any, label: str, mark: str = "") -> Iterator[str]:
    """A value as lines, each with the label of what it is."""
    text = scalar(value, mark)
    if text is not None:
        yield f"{label}: {text}"
    elif isinstance(value, str):
        yield from (f"{label}| {line.rstrip()}" for line in value.rstrip("\n").split("\n"))
    elif isinstance(value, np.ndarray):
        yield f"{label}: {array(value, mark)}"
    elif isinstance(value, pd.Series):
        yield from lines(value.to_frame(str(value.name)), label, mark)
    elif isinstance(value, pd.DataFrame):
        yield f"{label}: {len(value)} rows of {', '.join(f'{name} {kind}' for name, kind in value.dtypes.items())}"
        if len(value) > WHOLE:
            yield from (f"{label}.{name}: {array(value[name].to_numpy(), mark)}" for name in value)
        else:
            for place, row in zip(value.index, value.itertuples(index=False), strict=True):
                yield f"{label}[{place}]: {' '.join(scalar(cell, mark) or repr(cell) for cell in row)}"
    elif hasattr(value, "as_text"):
        yield from lines(value.as_text(), label)
    elif isinstance(value, BaseException):
        said = [type(value).__name__, str(value), *getattr(value, "__notes__", ())]
        yield from lines("\n".join(said), f"{label} raises")
    elif isinstance(value, Mapping) and not type(value).__module__.startswith("dpstats"):
        for key, one in value.items():
            yield from lines(one, f"{label}.{key}" if label else str(key), mark)
        if not value:
            yield f"{label}: {{}}"
    elif isinstance(value, (list, tuple)):
        if all(scalar(one) is not None for one in value):
            yield f"{label}: {array(np.array(value, dtype=object), mark)}"
        else:
            for place, one in enumerate(value):
                yield from lines(one, f"{label}.{place}", mark)
    elif type(value).__module__.startswith("dpstats"):
        yield from public(value, label)
    else:
        raise TypeError(f"{label}: a case must return what has a text, not {type(value)}")


def public(value: Any, label: str) -> Iterator[str]:
    """The documented attributes and methods of an object of dpstats, as far as it has them."""
    yield from lines(repr(value), f"{label}.repr")
    if type(value).__str__ is not object.__str__ and not hasattr(value, "summary"):
        yield from lines(str(value), f"{label}.str")
    if isinstance(value, dp.Guarantee):
        return
    for name in ATTRIBUTES:
        try:
            found = attempt(lambda name=name: getattr(value, name))
        except AttributeError:
            continue
        if not callable(found):
            yield from lines(found, f"{label}.{name}", "=" if name == "scaled_params" and on_lattice(value) else "")
    for name in (*CALLS, *LATER):
        if callable(getattr(value, name, None)):
            with contextlib.suppress(AttributeError):  # of what is inherited, and not for this class
                found = attempt(getattr(value, name))
                if name == "to_dict" and isinstance(found, Mapping):
                    found = outline(found)
                yield from lines(
                    digest(found) if name in LATER and isinstance(found, str) else found, f"{label}.{name}"
                )
    if isinstance(value, Mapping):
        for key in value:
            yield from lines(value[key], f"{label}[{key}]")


def on_lattice(fit: Any) -> bool:
    """Whether the coefficients of a fit are released as they are: not made of sums, and not as a paper prints them."""
    facts = fit.glance() if hasattr(fit, "glance") else {}
    return "method" in facts and facts["method"].item() in LATTICE and ";" not in (fit.guarantee.reason or "")


def attempt(call: Callable[[], object]) -> object:
    """What a call returns, or the error of dpstats that it raises."""
    try:
        return call()
    except dp.errors.DPStatsError as error:
        return error


def outline(stored: Mapping[str, Any], depth: int = 2) -> dict[str, Any]:
    """A stored form: plain values as they are, and digests of what lies deeper, so that a difference has a place."""
    found: dict[str, Any] = {}
    for key, value in stored.items():
        if isinstance(value, Mapping) and depth:
            found[key] = outline(value, depth - 1)
        else:
            found[key] = value if scalar(value) is not None else digest("\n".join(lines(value, "")))
    return found


def alike(old: str, new: str) -> bool:
    """Whether two lines are the same but for what is the machine's."""
    old, new = (re.sub(r"#[0-9a-f]{16,}", "#", line) for line in (old, new))
    if NUMBER.split(old) != NUMBER.split(new):
        return False
    numbers = list(zip(NUMBER.findall(old), NUMBER.findall(new), strict=True))
    most = max((abs(_float(one)) for one, _ in numbers), default=0.0)
    return all(one == other or _near(one, other, most) for one, other in numbers)


def _near(old: str, new: str, most: float) -> bool:
    if old[0] == "=" or ("0x" not in old and min(len(re.sub(r"\D", "", text)) for text in (old, new)) < 8):
        return False
    a, b = _float(old), _float(new)
    return abs(a - b) <= 10.0**-DIGITS * abs(a) + 1e-10 * most + 1e-14


def _float(text: str) -> float:
    return float.fromhex(text.removeprefix("=")) if "0x" in text else float(text)
