"""What a plan tells by rows that nobody has read: rows made up from public facts, and forecasts of errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pandas as pd


class Simulated(ABC):
    """A plan whose call can be carried out on made-up rows, and whose standard errors can be forecast.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0)
    """

    @abstractmethod
    def _call(self, what: str) -> Any:
        """The call that is planned; ArgumentError without one."""

    @property
    @abstractmethod
    def coefficients(self) -> list[Any]:
        """What errors are of: names, and with several classes pairs of a class and a name."""

    def simulate(self, n: int, seed: int = 0, *, typical: Mapping[str, Any] | None = None, like: Any = None) -> Any:
        """An example of such a fit: the result of the plan on the rows of `made_up`.

        It costs nothing and is not certified, because its noise is seeded.

        Examples
        --------
        >>> plan.simulate(1000, seed=1).params.index.tolist()
        ['Intercept', 'x']
        """
        return self._call("simulate").simulate(self, n, seed, self._read(typical), like)

    def made_up(
        self, n: int, seed: int = 0, *, typical: Mapping[str, Any] | None = None, like: Any = None
    ) -> pd.DataFrame:
        """Rows simulated from public facts alone, to inspect, edit, and pass as ``like=``.

        Numbers have a standard deviation of a sixth of their range about a little below its middle, the k-th level is
        k^2 times as rare as the first, one in seven of 0 and 1 is 1, columns hardly correlate. The response follows
        from the family, with coefficients drawn at random: a quarter of second levels, counts of a mean of a twentieth
        of the greatest; of a continuous one half of the spread is explained. `n` counts rows; with a unit every three
        are one person's, so that `standard_errors(n)`, which counts persons, is the forecast for panel data.

        Parameters
        ----------
        n, seed : int
        typical : dict, optional
            Public facts about columns: ``{"bmi": (27, 4), "ward": {"burns": 0.01}, "smoker": 0.2}`` gives mean and sd
            of a number, shares of levels, and the share of ones; of two levels, the share of the second is enough.
        like : DataFrame, optional
            PUBLIC rows to draw from, such as published microdata or a synthetic file. Never pass the private rows: the
            result would depend on them, and no budget pays for it.

        Examples
        --------
        >>> plan.made_up(1000, typical={"x": (0.9, 0.05)}).shape
        (1000, 2)
        """
        return self._call("made_up").made_up(self, n, seed, self._read(typical), like)

    def standard_errors(
        self,
        n: int,
        *,
        residual_sd: float | None = None,
        typical: Mapping[str, Any] | None = None,
        like: Any = None,
    ) -> pd.DataFrame:
        """Standard errors that a fit of `n` rows is likely to show: a forecast, for which nothing is read or spent.

        Where only the Domain is known three kinds of rows are supposed: usual ones, as `made_up` draws them; ones that
        say more (numbers that fill their range); and ones that say less (narrow numbers off the middle, rarer levels,
        columns that go together). `typical` and `like` tell better, as for `made_up`; `residual_sd` is that of a
        continuous response, in its units, by default 0.07 of its range. Of usual rows 25 % have the event of a 0/1
        response: ``typical={"y": 0.06}`` says that fewer do.

        With a unit `n` counts persons. A person is one row of weight 1, or `max_rows` rows that are all alike: errors
        are smaller as far as a person's rows differ. Public rows of `like` that have the unit's column, the response
        and all others tell by how much.

        `typical` does not describe the skewness of a response; `like` rows with the response take it into account.
        Residuals of a described response are supposed to be skewed only if its mean is within three standard deviations
        of an end of its range.

        `typical` says nothing of correlations. Where it describes all columns each error is the larger of two: for a
        correlation of .3 between any two columns, and for independent ones, as is usually worse for the intercept.

        Returns
        -------
        DataFrame
            In the user's units: std_error, of usual rows or those that are known; lower and upper, of rows that say
            more and less; sampling, without any noise; identified, the chance that the noise, also that of the count of
            rows by which a default fit decides, leaves the coefficient a standard error, of the rows of std_error;
            identified_upper, that chance of the rows of upper, which is the one to count on where nothing is known. An
            error is inf where its chance is below one half. Of known rows lower is about the median of fits, std_error
            that of a fit that buys wide ranges or a wide cap, as one in ten does, and at least 95 of 100 fits are
            expected to be below upper; it is inf if more than 2 of 100 may have no error, by their noise or by a range
            that they buy. identified counts both.

        Examples
        --------
        >>> logit = dp.plan("y ~ x", {"x": (0, 1), "y": bool}, 1.0, family="binomial")
        >>> logit.standard_errors(20_000).equals(logit.forecast().errors(20_000))
        True
        """
        return self.forecast(residual_sd=residual_sd, typical=typical, like=like).errors(n)

    def forecast(
        self, *, residual_sd: float | None = None, typical: Mapping[str, Any] | None = None, like: Any = None
    ) -> Any:
        """What `standard_errors` rests on, for several numbers of rows or budgets: ``errors(n)``, ``at(plan)``."""
        return self._call("standard_errors").forecast(self, residual_sd, self._read(typical), like)

    def _read(self, typical: object) -> object:
        """`typical` without columns that are declared and not read."""
        if not isinstance(typical, Mapping):
            return typical
        unread = self._call("typical").unread
        return {name: given for name, given in typical.items() if name not in unread}
