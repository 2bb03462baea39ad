"""Objects that fight back: every method raises, warns, prints or lies."""

from __future__ import annotations

import decimal
import functools
import numbers
import sys
import warnings
from collections.abc import Callable
from typing import Any

NAMES = (
    "__abs__ __add__ __and__ __array__ __array_interface__ __array_struct__ __array_ufunc__ __arrow_c_array__ "
    "__arrow_c_stream__ __bool__ __bytes__ __ceil__ __complex__ __contains__ __copy__ __dataframe__ __deepcopy__ "
    "__dlpack__ __enter__ __eq__ __float__ __floor__ __format__ __ge__ __getitem__ __gt__ __hash__ __index__ __int__ "
    "__iter__ __le__ __len__ __length_hint__ __lt__ __mod__ __mul__ __ne__ __neg__ __next__ __radd__ __reduce_ex__ "
    "__repr__ __reversed__ __rmul__ __round__ __rsub__ __rtruediv__ __sizeof__ __str__ __sub__ __truediv__ __trunc__ "
    "as_py casefold decode dtype encode is_integer isoformat item items keys lower ndim replace shape strip timestamp "
    "to_numpy tolist tzinfo values"
)
METHODS = NAMES.split(" ")

Answer = Callable[..., Any]


class Anything:
    """Registered as a real number by `cells`, as any class may be."""


def fighting(answer: Answer, base: type = object, **odd: Any) -> type:
    """A class all of whose methods answer with `answer`, but for those in `odd`."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return answer()

    return type(f"Fighting{base.__name__.title()}", (base,), {**dict.fromkeys(METHODS, method), **odd})


def raising(error: type[BaseException]) -> Answer:
    """An answer that raises."""

    def answer() -> Any:
        raise error("cell")

    return answer


def warning() -> float:
    """An answer with a warning."""
    warnings.warn("cell", UserWarning, stacklevel=2)
    return 1.0


def printing() -> float:
    """An answer that prints, to both streams."""
    print("cell")
    print("cell", file=sys.stderr)
    return 1.0


class OddFloat(float):
    """A float that claims to be several."""


def deprecated() -> Any:
    """What __float__ may only return with a warning."""
    return OddFloat(1.0)


class Turning:
    """A number that changes whenever it is looked at, and raises in the end."""

    def __init__(self) -> None:
        self.looked = 0

    def __float__(self) -> float:
        self.looked += 1
        if self.looked > 2:
            raise ValueError("cell")
        return float(self.looked)

    def __eq__(self, other: object) -> bool:
        self.looked += 1
        return self.looked % 2 == 0

    def __hash__(self) -> int:
        self.looked += 1
        return self.looked


class Deep:
    """A recursion without end."""

    def __float__(self) -> float:
        return float(self)

    def __eq__(self, other: object) -> bool:
        return self == other

    def __hash__(self) -> int:
        return hash(self)

    def __repr__(self) -> str:
        return repr(self)


class Meta(type):
    """A class whose own hash, comparison and instance check raise."""

    def __hash__(cls) -> int:
        raise ValueError("cell")

    def __eq__(cls, other: object) -> bool:
        raise ValueError("cell")

    def __instancecheck__(cls, instance: object) -> bool:
        raise ValueError("cell")

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise ValueError("cell")

    def __repr__(cls) -> str:
        raise ValueError("cell")


class Lawless(metaclass=Meta):
    """An object of a hostile class."""


class Named:
    """A class that cannot be named."""

    @property
    def __class__(self) -> Any:
        raise ValueError("cell")

    def __getattribute__(self, name: str) -> Any:
        raise ValueError("cell")


def posing(base: type) -> type:
    """A class whose objects say that they are of another."""
    return fighting(raising(ValueError), __class__=property(lambda self: base))


def _make(cls: type, *arguments: Any) -> Callable[[], Any]:
    return functools.partial(cls, *arguments)


def _hostile() -> dict[str, Callable[[], Any]]:
    """All of them by name; each is made anew."""
    errors: list[type[BaseException]] = [ValueError, KeyboardInterrupt, SystemExit, MemoryError, RecursionError]
    errors += [GeneratorExit, StopIteration, Warning, FloatingPointError, UnicodeError, NotImplementedError]
    made: dict[str, Callable[[], Any]] = {}
    for error in errors:
        answer = raising(error)
        made[f"object, {error.__name__}"] = _make(fighting(answer))
        made[f"Real, {error.__name__}"] = _make(fighting(answer, Anything))
    for error in (ValueError, KeyboardInterrupt, MemoryError):
        made[f"str, {error.__name__}"] = _make(fighting(raising(error), str), "a")
        made[f"float, {error.__name__}"] = _make(fighting(raising(error), float), 1.0)
        made[f"int, {error.__name__}"] = _make(fighting(raising(error), int), 1)
    made["Decimal, ValueError"] = _make(fighting(raising(ValueError), decimal.Decimal), "1")
    made["bytes, ValueError"] = _make(fighting(raising(ValueError), bytes), b"1")
    made["list, ValueError"] = _make(fighting(raising(ValueError), list), [1])
    answers: dict[str, Answer] = {"warns": warning, "prints": printing, "subclass of float": deprecated}
    answers |= {"None": lambda: None, "text": lambda: "a", "array": lambda: [1, 2], "NaN": lambda: float("nan")}
    for name, answer in answers.items():
        made[f"Real, {name}"] = _make(fighting(answer, Anything))
        made[f"str, {name}"] = _make(fighting(answer, str), "1")
        made[f"float, {name}"] = _make(fighting(answer, float), 1.0)
    made["Real, changing"] = _make(type("Turn", (Turning, Anything), {}))
    made["Real, recursion"] = _make(type("DeepReal", (Deep, Anything), {}))
    made["class of a hostile metaclass"] = Lawless
    made["class that raises"] = Named
    for base in (str, float, int, bool, list, dict, numbers.Real):
        made[f"poses as {base.__name__}"] = _make(posing(base))
    return made


HOSTILE = _hostile()
