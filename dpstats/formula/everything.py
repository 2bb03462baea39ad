"""``y ~ .``: all columns that the Domain declares, written out."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

from dpstats.domain import Domain
from dpstats.errors import FormulaError
from dpstats.formula.hints import dots, located
from dpstats.formula.parse import parse


def written_out(formula: str, domain: Domain | Mapping[str, Any] | None) -> str:
    """The formula with ``.`` on its right as a sum of the declared columns that it does not read otherwise.

    The response's columns are left out, and those of its offset and weights. What ``.`` stands for so follows from
    the Domain, never from the data.

    Raises
    ------
    FormulaError
        If nothing is declared that it could stand for, or it stands on the left.
    """
    places = list(dots(formula)) if isinstance(formula, str) else []
    if not places:
        return formula
    if places[0] < formula.find("~"):
        raise FormulaError(located("'.' is refused on the left of '~'; name the response", places[0]))
    bare = parse(_with(formula, places, "1"))
    taken = {*bare.response_columns, *bare.weight_columns, *_offset_columns(bare.predicting_columns, bare.exog_columns)}
    names = [name for name in Domain.coerce(domain) if name not in taken]
    if not names:
        message = "'.' stands for all columns that the domain declares, and it declares no other: add some to domain="
        raise FormulaError(located(message, places[0]))
    return _with(formula, places, f"({' + '.join(map(_code, names))})" if len(names) > 1 else _code(names[0]))


def _offset_columns(predicting: tuple[str, ...], exog: tuple[str, ...]) -> set[str]:
    return set(predicting) - set(exog)


def _with(formula: str, places: list[int], text: str) -> str:
    for place in reversed(places):
        formula = formula[:place] + text + formula[place + 1 :]
    return formula


def _code(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return name if plain else f"Q({name!r})"
