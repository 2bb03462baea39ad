"""What several methods would cost for the same model and budget, from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpstats.plan.tables import Summary, format_number, full_width, wrap_notes
from dpstats.plots import draw_comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTES = (
    "No row was read and nothing spent: a comparison is a function of formula, Domain and options.",
    "'excess' is a prediction: what privacy is likely to add to the mean loss of the rows, for typical coefficients "
    "and rows drawn evenly from the Domain. Real rows are less even: the order of the methods matters more than the "
    "figures. 'at most' is proved, in the mean over the noise and for any rows.",
    "'noise' is the predicted standard deviation, root mean square over the coefficients in model units.",
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side; `dpstats.compare` makes it.

    Attributes
    ----------
    formula : str
    n : int
        The guess at the number of rows that `table` is for.
    table : DataFrame
        One method a row, the least predicted excess first. Columns: law, of the noise; noise; excess and at_most, by
        row; eps and delta as they would be charged; certified.
    curves : DataFrame
        Columns method, n, noise, excess, at_most: the same at other numbers of rows.
    left_out : dict
        Methods that do not suit the model, and why.
    description : str
        Family, budget and neighbours in a line.
    counted : str
        What `n` is the number of.

    Examples
    --------
    >>> import dpstats as dp
    >>> found = dp.compare("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1.0, n=5000)
    >>> {"method", "n", "excess"} <= set(found.curves.columns)
    True
    """

    formula: str
    n: int
    table: pd.DataFrame
    curves: pd.DataFrame
    left_out: Mapping[str, str]
    description: str
    counted: str = "rows"

    @property
    def best(self) -> str:
        """The method of the least predicted excess at `n`."""
        return str(self.table.index[0])

    def summary(self) -> Summary:
        """The table, in statsmodels' look; as_text, as_html and as_latex.

        Examples
        --------
        >>> found.best in found.summary().as_text()
        True
        """
        names = ("noise", "excess", "at_most", "delta")
        rows = [
            (method, [row["law"], *(format_number(row[name]) for name in names)])
            for method, row in self.table.iterrows()
        ]
        headers = ["law", "noise", "excess", "at most", "delta"]
        summary = Summary()
        title = f"Methods for {self.formula}, {self.n:,} {self.counted}\n{self.description}"
        summary.tables = [full_width(headers, rows, [17, 10, 10, 10, 11], title=title)]
        others = [f"{method} is NOT certified here." for method in self.table.index[~self.table["certified"]]]
        others += [f"{method} is left out: {reason}." for method, reason in self.left_out.items()]
        summary.add_extra_txt(wrap_notes([*NOTES, *others]))
        return summary

    def plot(self, **arguments: Any) -> Axes:
        """The predicted excess of each method against the number of rows; see `dpstats.plots.methods`.

        Examples
        --------
        >>> found.plot().get_xscale()  # with the extra "plots"
        'log'
        """
        return draw_comparison(self, **arguments)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(map(str, self.table.index))}: {self.formula}, best {self.best}>"
