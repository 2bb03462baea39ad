"""What is declared of one column: its range or its levels, and the cells that they stand for."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.arguments import check_choice, is_number, safe_repr
from dpstats.errors import ArgumentError, DomainError
from dpstats.wording import days_since

Scalar = str | int | float | bool


_NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "?bBhHiIlLqQpPefdg")


def as_number(cell: object) -> float:
    """The finite number that a cell or level stands for, or NaN.

    Python's and numpy's numbers and booleans, Decimal, Fraction and strings that spell a decimal number count;
    everything else (dates, containers, infinities, integers beyond the range of a double) is NaN. Never raises, and
    never calls a method that a cell's own class defines.
    """
    kind = type(cell)
    try:
        if issubclass(kind, str):
            text = str.__str__(cell)
            number = math.nan if "_" in text else float(text)
        elif issubclass(kind, float):
            number = float.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, int):
            number = int.__float__(cell)  # type: ignore[arg-type]
        elif issubclass(kind, Decimal):
            number = Decimal.__float__(cell)  # type: ignore[arg-type]
        elif kind is Fraction or kind in _NUMPY_NUMBERS:
            number = float(cell)  # type: ignore[arg-type]
        else:
            return math.nan
    except Exception:  # cells may be objects of any class, and no error may depend on a cell
        return math.nan
    return number if math.isfinite(number) else math.nan


def canonical(cell: object) -> float | str | None:
    """The value by which a cell matches a level: a number, else the stripped string, else None (missing).

    So 1, 1.0, "1" and True are one level, as are "F" and " F ".
    """
    number = as_number(cell)
    if not math.isnan(number):
        return number
    return str.strip(cell) if issubclass(type(cell), str) else None  # type: ignore[arg-type]


OUTSIDE = ("clip", "drop")
"""What may become of rows with a cell outside of its column's range."""


EXTRAS = ("outside", "typical", "inner")
"""What a range may say beside its ends."""

TYPICAL_REACH = 3.0
"""Standard deviations about a typical mean within which rows are kept (docs/proofs/trimming)."""

ENDS = 1.001
"""A typical standard deviation may exceed that of rows at the two ends of a range by so much, as samples' do."""


MOST_SHOWN = 5
"""So many levels are written out in an error."""

NINES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
"""Codes for missing, with either sign; 9 itself is as a rule a number like 8."""

DECIMAL_NINES = re.compile(r"-?9{1,4}\.9{1,2}")
"""Codes for missing of numbers with decimals, where a range ends at one: 99.9 within (0, 1000) is a number."""


@dataclass(frozen=True, repr=False)
class Range:
    """The range of a numeric column, and the treatment of cells beyond it.

    Parameters
    ----------
    low, high : float
        Finite, with ``low < high``. Splines and other bases are laid out over the range.
    outside : {"clip", "drop"}
        "clip", as for a plain pair: a cell outside is moved to the nearer end. "drop": the row is left out of the fit,
        like a row with a missing cell. Clipping an explanatory column changes its slope; dropping rows by an
        explanatory column does not, if the model is right. Dropping rows by the response biases the model and is
        refused. A model that drops rows extrapolates by its formula.
    typical : (float, float) or float, optional
        Mean and standard deviation, from a published table: public, never computed from the data. Rows further than
        three standard deviations from the mean are left out, and the noise follows this interval instead of the range.
        A response, and a column of codes with the range (0, 1), keep their range; of the latter the share of ones is
        enough.
    inner : (float, float), optional
        An interval within the range; rows with a cell outside it are left out. `dpstats.buy_ranges` buys such
        intervals.

    Raises
    ------
    ArgumentError
        If `outside` is neither word, or `typical` or `inner` is not a pair of numbers. A Domain checks the numbers.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.Domain(age=dp.Range(17, 90), delay=dp.Range(-20, 120, outside="drop"))
    Domain({'age': (17, 90), 'delay': Range(low=-20, high=120, outside='drop')})
    >>> dp.Range(0, 300, typical=(27, 5)).interval
    (12.0, 42.0)
    """

    low: float
    high: float
    outside: Literal["clip", "drop"] = "clip"
    typical: Any = field(default=None, kw_only=True)  # a share of ones is kept as the pair that it means
    inner: tuple[float, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("outside", self.outside, OUTSIDE)
        if self.is_binary and is_number(share := self.typical) and 0 < share < 1:
            object.__setattr__(self, "typical", (share, math.sqrt(share * (1 - share))))
        for name, form in (("typical", "(mean, sd)"), ("inner", "(low, high)")):
            pair = getattr(self, name)
            if pair is None:
                continue
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(map(is_number, pair)):
                raise ArgumentError(f"{name} must be a pair of finite numbers {form}, got {safe_repr(pair)}")
            object.__setattr__(self, name, tuple(_python_scalar(number) for number in pair))

    @property
    def interval(self) -> tuple[float, float]:
        """The ends within which a fit keeps rows, or to which it clips them."""
        if self.inner is not None:
            return self.inner
        if self.typical is None or self.is_binary:
            return self.low, self.high
        mean, deviation = self.typical
        return max(self.low, mean - TYPICAL_REACH * deviation), min(self.high, mean + TYPICAL_REACH * deviation)

    @property
    def is_binary(self) -> bool:
        """Whether the range is that of 0 and 1."""
        return (self.low, self.high) == (0, 1) and isinstance(self.high, int)

    @property
    def drops(self) -> bool:
        """Whether rows with a cell outside of the interval are left out of fits."""
        return self.outside == "drop" or self.interval != (self.low, self.high)

    @property
    def missing_codes(self) -> tuple[float, ...]:
        """The numbers within the interval that codebooks use for missing, such as -9 and 999: the outermost ones."""
        low, high = self.interval
        negative = max((code for code in NINES if low <= -code < high), default=None)
        positive = max((code for code in NINES[1:] if low < code <= high), default=None)
        if low < 0 and DECIMAL_NINES.fullmatch(repr(float(low))):
            negative = -float(low)
        if high > 0 and DECIMAL_NINES.fullmatch(repr(float(high))):
            positive = float(high)
        return tuple(code for code in (negative and -negative, positive) if code is not None)

    @property
    def extras(self) -> dict[str, Any]:
        """What is declared beside the ends, plain: nothing of a plain pair."""
        named = {
            "outside": self.outside if self.outside == "drop" else None,
            "typical": self.typical,
            "inner": self.inner,
        }
        return {name: value for name, value in named.items() if value is not None}

    def holds(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which numbers lie within the interval, ends included; NaN does not.

        Examples
        --------
        >>> Range(0, 1).holds(np.array([0.0, 0.5, 1.5, np.nan])).tolist()
        [True, True, False, False]
        """
        low, high = self.interval
        return (numbers >= low) & (numbers <= high)

    def __repr__(self) -> str:
        extras = "".join(f", {name}={value!r}" for name, value in self.extras.items())
        return f"Range(low={self.low!r}, high={self.high!r}{extras})"


@dataclass(frozen=True)
class Levels:
    """A categorical column: a cell of no declared level is missing. The order is the coding order."""

    values: tuple[Scalar, ...]

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def code_of(self) -> dict[float | str, int]:
        """Canonical value of each level, to its position."""
        return {canonical(level): code for code, level in enumerate(self.values)}  # type: ignore[misc]


def declaration_of(name: object, value: object) -> Range | Levels:
    """What a Domain holds of a column that is declared by `value`; DomainError that names the column."""
    if isinstance(value, Range):
        checked = _range(name, (value.low, value.high))
        return _with_extras(name, replace(value, low=checked.low, high=checked.high))
    if isinstance(value, Levels):
        return _levels(name, list(value.values))
    if value is bool:
        return Range(0, 1)
    if isinstance(value, (set, frozenset)):
        raise DomainError(
            f"the levels of {name!r} are a set, which has no order: write a list. The first level is the "
            "reference; for a response with two levels, the second is modelled"
        )
    levels = value if isinstance(value, list) else _typed_levels(name, value)
    if levels is not None:
        if (ends := like_a_range(declaration := _levels(name, levels))) is not None:
            low, high = declaration.values
            raise DomainError(f"declare {name!r} as {ends} for a range, as ['{low}', '{high}'] for two levels")
        return declaration
    # By the module of its class: a Domain is read where pandas is not installed.
    if isinstance(value, np.ndarray) or any(kind.__module__.split(".")[0] == "pandas" for kind in type(value).__mro__):
        # Such as data["sex"].unique(): levels found in the data are not public.
        raise DomainError(
            f"the levels of {name!r} must be a list written from the codebook, not a {type(value).__name__}: "
            "values from the data are not public. Make a list of values from elsewhere with tolist()"
        )
    if isinstance(value, tuple):
        return _range(name, value)
    if isinstance(value, range) and len(value) > 1:
        raise DomainError(
            f"declare {name!r} as ({value[0]}, {value[-1]}), a range of numbers, or as list({value!r}), levels; a "
            "Python range is neither"
        )
    raise DomainError(f"declare {name!r} as a range (low, high), a list of levels, or bool; got {type(value).__name__}")


def _typed_levels(name: object, value: object) -> list[object] | None:
    """The levels that a type lists: of an Enum class, a pandas CategoricalDtype or a polars Enum; else None."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return [member.value for member in value]
    kind, home = type(value).__name__, type(value).__module__.partition(".")[0]
    # By name: a Domain is read where neither is installed.
    if (home, kind) not in (("pandas", "CategoricalDtype"), ("polars", "Enum")):
        return None
    categories = getattr(value, "categories", None)
    if categories is None:
        raise DomainError(f"the CategoricalDtype of {name!r} lists no categories; write the levels as a list")
    return list(categories.to_list())


def _range(name: object, pair: tuple[object, ...]) -> Range:
    if any(end is ... for end in pair):
        raise DomainError(f"the range of {name!r} is not filled in: write (low, high) from the codebook")
    ends = [_python_scalar(end) for end in pair]
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends):
        texts = len(pair) <= MOST_SHOWN and all(isinstance(end, str) for end in pair)
        listed = f": {safe_repr(list(pair))}" if texts else ""
        if texts and all(re.match(r"\d+[-./]\d+[-./]\d", str(end)) for end in pair):
            listed = f"; make a date a number, {days_since(str(name))}"
        raise DomainError(
            f"the range of {name!r} must be a pair of numbers (low, high); write levels as a list{listed}"
        )
    low, high = ends
    # The width must be a finite double too, so that no later arithmetic on the range can overflow.
    if not math.isfinite(as_number(low)) or not math.isfinite(as_number(high)) or float(high) - float(low) == math.inf:
        raise DomainError(f"the range of {name!r} must be finite, got ({safe_repr(low)}, {safe_repr(high)})")
    if not float(low) < float(high):
        raise DomainError(f"the range of {name!r} must have low < high, got ({safe_repr(low)}, {safe_repr(high)})")
    # Beyond 2**53 an integer is not a double; below, it reads better as the user wrote it.
    low, high = (end if abs(end) <= 2**53 else float(end) for end in (low, high))
    return Range(low, high)


def _with_extras(name: object, declared: Range) -> Range:
    """The range, once what it says beside its ends is known to suit them."""
    low, high = declared.low, declared.high
    if declared.typical is not None:
        mean, deviation = declared.typical
        if not low <= mean <= high:
            raise DomainError(f"the typical mean of {name!r} must be within its range, ({low}, {high})")
        most = math.sqrt((mean - low) * (high - mean))
        if not 0 < deviation <= ENDS * most:
            raise DomainError(
                f"the typical standard deviation of {name!r} must be positive and, for a mean of {mean:g}, at most "
                f"{most:.4g}, the standard deviation of rows that all lie at the ends of its range"
            )
    first, last = declared.interval
    if declared.inner is not None and not (low <= first < last <= high):
        raise DomainError(
            f"the inner interval of {name!r} must have two ends in order within its range, ({low}, {high})"
        )
    if not first < last:
        raise DomainError(f"the typical standard deviation of {name!r} is too small beside its mean to be told from 0")
    return declared


def _levels(name: object, values: list[object]) -> Levels:
    levels = tuple(_python_scalar(value) for value in values)
    if any(level is ... for level in levels):
        raise DomainError(f"the levels of {name!r} are not filled in: write [...] from the codebook")
    if not levels:
        raise DomainError(f"the levels of {name!r} are empty; list every value the column may take")
    if any(not isinstance(level, Scalar) or canonical(level) is None for level in levels):
        raise DomainError(f"the levels of {name!r} must be strings, finite numbers or booleans")
    if len({canonical(level) for level in levels}) < len(levels):
        raise DomainError(
            f"the levels of {name!r} are not distinct (1, 1.0, '1' and '01' are the same level, since cells are "
            "compared by value)"
        )
    return Levels(levels)


def number_pair(levels: Levels) -> tuple[Any, Any] | None:
    """Two levels that are numbers, or texts of numbers, in order; None for others, and for truths."""
    numbers = [level for level in levels.values if not isinstance(level, bool) and math.isfinite(as_number(level))]
    if not len(numbers) == len(levels.values) == 2:
        return None
    low, high = sorted(numbers, key=as_number)
    return low, high


def like_a_range(levels: Levels) -> tuple[float, float] | None:
    """The ends of a range that two numbers may stand for; None for other levels, and for codes: 0 and 1, 2 and 1.

    Taken as levels, [17, 90] would drop every other age, silently: missing rows are private.
    """
    if (ends := number_pair(levels)) is None or any(isinstance(level, str) for level in levels.values):
        return None
    low, high = ends
    whole = all(float(end).is_integer() for end in ends)
    return None if whole and high - low <= 1 else (low, high)


def _python_scalar(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value
