"""What a stream releases at each tick: the sum of all ticks, a decaying sum, or the sum of the last few."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from dpstats.arguments import is_number, is_whole, safe_repr
from dpstats.errors import ArgumentError

Float = NDArray[np.float64]

DEFAULT_HORIZON = 10**6  # Horizon of a cumulative stream without a declared one
ENDLESS_TICKS = 2**40  # Certified ticks of a stream without a horizon: one per millisecond for 35 years


@dataclass(frozen=True)
class Workload(ABC):
    """What is released at each tick, of a stream that may run for ever unless it says otherwise."""

    name: ClassVar[str]
    endless: ClassVar[bool] = True
    """Whether the noise needs no horizon."""

    @property
    def ticks(self) -> int:
        """The last tick that is certified."""
        return ENDLESS_TICKS

    @property
    def decay(self) -> float:
        """rho, what a tick weighs beside the one after it."""
        return 1.0

    @abstractmethod
    def apply(self, series: Float) -> Float:
        """The workload's sums of a series, over the first axis."""

    def to_dict(self) -> dict[str, Any]:
        """The arguments that name it."""
        return asdict(self)


@dataclass(frozen=True)
class Cumulative(Workload):
    """Sums of all ticks so far.

    The noise is made for the last tick, `horizon`; ArgumentError if that is not an integer from 1 to 2**40.

    Examples
    --------
    >>> sums = Cumulative(4)
    >>> sums.ticks, sums.endless, sums.decay, sums.to_dict()
    (4, False, 1.0, {'horizon': 4})
    >>> sums.apply(np.ones(4))
    array([1., 2., 3., 4.])
    """

    horizon: int = DEFAULT_HORIZON
    name: ClassVar[str] = "cumulative"
    endless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_count("horizon", self.horizon, ENDLESS_TICKS))

    @property
    def ticks(self) -> int:
        return self.horizon

    def apply(self, series: Float) -> Float:
        return np.cumsum(series, axis=0)


@dataclass(frozen=True)
class Halflife(Workload):
    """Sums in which a tick weighs half of one that is `halflife` ticks younger.

    ArgumentError if `halflife` is not from 0.1 to 10 million ticks.

    Examples
    --------
    >>> fading = Halflife(1.0)
    >>> fading.endless, fading.decay, fading.ticks > 0, fading.to_dict()
    (True, 0.5, True, {'halflife': 1.0})
    >>> fading.apply(np.ones(3))
    array([1.  , 1.5 , 1.75])
    """

    halflife: float
    name: ClassVar[str] = "halflife"

    def __post_init__(self) -> None:
        if not is_number(self.halflife) or not 0.1 <= self.halflife <= 1e7:
            raise ArgumentError(f"halflife must be a number of ticks from 0.1 to 1e7, got {safe_repr(self.halflife)}")
        object.__setattr__(self, "halflife", float(self.halflife))

    @property
    def decay(self) -> float:
        return float(0.5 ** (1 / self.halflife))

    def apply(self, series: Float) -> Float:
        return np.asarray(signal.lfilter([1.0], [1.0, -self.decay], series, axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Window(Workload):
    """Sums of the last `window` ticks; ArgumentError if that is not an integer from 1 to 100,000.

    Examples
    --------
    >>> last = Window(2)
    >>> last.endless, last.ticks > 0, last.decay, last.to_dict()
    (True, True, 1.0, {'window': 2})
    >>> last.apply(np.ones(3))
    array([1., 2., 2.])
    """

    window: int
    name: ClassVar[str] = "window"

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_count("window", self.window, 10**5))

    def apply(self, series: Float) -> Float:
        totals = np.cumsum(series, axis=0)
        late = np.zeros_like(totals)
        late[self.window :] = totals[: -self.window]
        return totals - late


def make_workload(
    workload: Workload | str | None, horizon: int | None, halflife: float | None, window: int | None
) -> Workload:
    """The workload that the arguments of a mechanism name; ArgumentError if they contradict each other."""
    numbers = {"horizon": horizon, "halflife": halflife, "window": window}
    named = [name for name, value in numbers.items() if value is not None]
    if isinstance(workload, Workload):
        if named:
            raise ArgumentError(f"workload already contains {' and '.join(named)}: leave that out")
        return workload
    if len(named) > 1:
        raise ArgumentError(f"give one of horizon, halflife and window, got {' and '.join(named)}")
    name = named[0] if named else "horizon"
    kinds: dict[str, type[Any]] = {"horizon": Cumulative, "halflife": Halflife, "window": Window}
    kind, names = kinds[name], [one.name for one in kinds.values()]
    if workload is not None and not (isinstance(workload, str) and workload in names):
        raise ArgumentError(f"workload must be one of {names} or a Workload, got {safe_repr(workload)}")
    if workload is not None and workload != kind.name:
        raise ArgumentError(f"workload={workload!r} needs {'horizon' if workload == 'cumulative' else workload}=")
    made: Workload = kind(numbers[name]) if named else Cumulative()
    return made


def check_participation(participation: object) -> tuple[int, ...]:
    """Offsets of one person's ticks, increasing from 0; ArgumentError if they are not distinct integers."""
    if not isinstance(participation, (tuple, list, range)) or len(participation) == 0:
        raise ArgumentError("participation must be a tuple of offsets of one person's ticks, such as (0, 1, 2, 3)")
    for offset in participation:
        if not is_whole(offset):
            raise ArgumentError(f"participation must be made of integers, got {safe_repr(offset)}")
    offsets = sorted(int(offset) for offset in participation)
    if len(set(offsets)) < len(offsets):
        raise ArgumentError("participation must hold distinct offsets; two rows in a tick are a larger row")
    if offsets[-1] - offsets[0] >= ENDLESS_TICKS or len(offsets) > 1000:
        raise ArgumentError("participation must hold at most 1,000 offsets, less than 2**40 apart")
    return tuple(offset - offsets[0] for offset in offsets)


def check_count(name: str, value: object, most: int, least: int = 1) -> int:
    """`value` as an int; ArgumentError unless it is an integer from `least` to `most`."""
    if not is_whole(value) or not least <= value <= most:
        raise ArgumentError(f"{name} must be an integer from {least} to {most:,}, got {safe_repr(value)}")
    return int(value)


def powers(decay: float, count: int) -> Float:
    """1, decay, decay^2, ..., shape (count,)."""
    return np.exp(np.arange(count) * math.log(decay))
