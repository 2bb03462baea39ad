"""What a formula says beside its columns: offset(...), weights(...), and counts as a response."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dpstats.errors import ArgumentError, FormulaError
from dpstats.formula.hints import locate

_WRITTEN = {
    "subset": "subset(age >= 18)",
    "offset": "offset(np.log(t))",
    "weights": "weights(w)",
    "cbind": "cbind(successes, failures)",
}

ARGUMENTS = {"offset": 1, "weights": 1, "subset": 1, "cbind": 2}
"""The calls that are no columns, and how many arguments each takes."""


def auxiliary_call(code: str) -> tuple[str, tuple[str, ...]] | None:
    """Which of `ARGUMENTS` a factor calls, with the code of its arguments; None for an ordinary factor.

    Raises FormulaError if there are too many arguments or too few.
    """
    try:
        tree = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    match tree:
        case ast.Call(func=ast.Name(name), args=arguments, keywords=keywords) if name in ARGUMENTS:
            if len(arguments) != ARGUMENTS[name] or keywords:
                raise FormulaError(
                    f"{code}: {name}() takes {ARGUMENTS[name]} expression(s) of columns, as in {_WRITTEN[name]}"
                )
            return name, tuple(ast.get_source_segment(code, argument) or code for argument in arguments)
    return None


def add_terms(
    formula: str,
    *,
    weights: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    subset: str | None = None,
) -> str:
    """The formula with what the arguments of a call, columns' names or expressions, add to it.

    Raises ArgumentError if one of them is no text: an array of private values, say.
    """
    for name, code in (("weights", weights), ("offset", offset), ("exposure", exposure), ("subset", subset)):
        if code is None:
            continue
        if not isinstance(code, str) or not code.strip():
            raise ArgumentError(
                f"{name} must be the name of a column of the data or an expression of columns, such as "
                f"{name}='{name[0]}'; got {type(code).__name__}"
            )
        added = f"offset(np.log({code.strip()}))" if name == "exposure" else f"{name}({code.strip()})"
        formula = f"{formula} + {added}"
    return formula


def one_at_most(formula: str, name: str, places: Sequence[int | None]) -> None:
    """Raise FormulaError if a formula has weights, or a subset, in several places: which of them would count?"""
    if len(places) > 1:
        fix = {"weights": "their product: weights(a * b)", "subset": "one condition: subset((a > 1) & (b > 1))"}[name]
        message = f"formula {formula!r} has several {name}; write {fix}"
        raise FormulaError(locate(message, places[1]))
