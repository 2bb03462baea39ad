"""What is public of a design: columns, bounds and scaling, before and without any row (docs/proofs/design)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from patsy.design_info import DesignInfo

from dpstats.cached import cached_property
from dpstats.domain import Domain
from dpstats.formula.bodies import Body
from dpstats.formula.bounds import Array, Term, TermNorms, combined_norm
from dpstats.formula.dummies import coded_dummies
from dpstats.formula.parse import Formula
from dpstats.formula.response import Response, ResponseSpec, scaling
from dpstats.formula.row_values import Condition, RowValue
from dpstats.formula.structure import design_forms
from dpstats.inference import Dummies
from dpstats.privacy.bodies import Image


@dataclass(frozen=True, eq=False)
class ScaledDesign:
    """The public facts of a design in model units.

    Attributes
    ----------
    formula : str
    domain : Domain
        The columns that the formula reads.
    names : tuple of str
        The p column names, as patsy writes them.
    terms : tuple of Term
        In the order of their columns; bounds in model units, whose squared l2 bounds sum to 1.
    has_intercept : bool
    response : ResponseSpec
    lower, upper : ndarray, shape (p,)
        Public range of each column in the user's units.
    center, scale : ndarray, shape (p,)
        A column in model units is (x - center) / scale.
    notes : tuple of str
        Public oddities worth telling the user.
    encoder : Response
        The response bound to the Domain that its columns are encoded by.
    shrunk : tuple of Term
        The terms whose part of a row is shrunk to their bounds.
    offset, weights : RowValue or None
        What the formula adds to the linear predictor, and what it weighs rows by.
    subset : Condition or None
        On which rows count.
    """

    formula: str
    domain: Domain
    names: tuple[str, ...]
    terms: tuple[Term, ...]
    has_intercept: bool
    response: ResponseSpec
    lower: Array
    upper: Array
    center: Array
    scale: Array
    notes: tuple[str, ...]
    _info: DesignInfo = field(repr=False)
    encoder: Response = field(repr=False)
    _parsed: Formula = field(repr=False)
    shrunk: tuple[Term, ...] = field(repr=False)
    _bodies: tuple[Body, ...] = field(repr=False)
    offset: RowValue | None = None
    weights: RowValue | None = None
    subset: Condition | None = None

    @property
    def offset_center(self) -> float:
        """What is taken off an offset in the user's units: what is typical, if an intercept can take it up."""
        return self.offset.middle if self.offset is not None and self.has_intercept else 0.0

    @property
    def offset_bound(self) -> float:
        """The greatest size of an offset in model units; 0 without any."""
        if self.offset is None:
            return 0.0
        return max(abs(end - self.offset_center) for end in (self.offset.low, self.offset.high)) / self.response.scale

    @property
    def score_ratio(self) -> float | None:
        """The covariance of a row's score over its information, if the model is right: 1 for rows that count alike.

        1 over the greatest number of trials for successes and failures; None where weights leave it open.
        """
        if self.weights is not None:
            return None
        return 1.0 if self.response.trials is None else 1.0 / self.response.trials

    @property
    def response_name(self) -> str:
        """The response as the formula writes it."""
        return self.response.name

    @property
    def row_norms(self) -> dict[str, float]:
        """Bounds on the l1, l2 and linf norms of a row."""
        ones = np.ones(len(self.names))
        return {"l1": self.norm_bound("l1", ones), "l2": 1.0, "linf": self.norm_bound("linf", ones)}

    @property
    def images(self) -> tuple[Image, ...]:
        """Bodies that hold every row, for noise cut to the design (docs/proofs/bodies)."""
        return tuple(body.image for body in self._bodies)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The bodies with the scales that rows are shrunk by."""
        return self._bodies

    @property
    def coding(self) -> DesignInfo:
        """patsy's coding of the right-hand side, learned from the Domain."""
        return self._info

    @property
    def dummies(self) -> tuple[Dummies, ...]:
        """The columns that are dummies of a factor beside the intercept."""
        return coded_dummies(self._info, self.center, self.scale)

    def forms(self, columns: NDArray[np.intp] | None = None) -> Array:
        """What is known of every sum of w x x' over rows; see `dpstats.formula.structure.design_forms`."""
        every = columns is None or np.array_equal(columns, np.arange(len(self.names)))
        return self._forms if every else design_forms(self, columns)

    @cached_property
    def _forms(self) -> Array:
        # Forecasts and results ask again and again; of forty columns it takes a second.
        return design_forms(self)

    @cached_property
    def _norms(self) -> TermNorms:
        return TermNorms(self.terms)

    def norm_bound(self, which: str, weights: Array) -> float:
        """A bound on the norm of x * weights over all rows x.

        Parameters
        ----------
        which : {"l1", "l2", "linf"}
        weights : ndarray, shape (p,)
            One factor a column; the sign does not matter.

        Returns
        -------
        float
            The supremum under the term bounds for l2 and linf, and for l1 at most the smaller of two bounds.
        """
        sizes = np.abs(np.asarray(weights, dtype=float))
        return combined_norm(self._norms.norms(which, sizes), which)

    def curvature_ratio(self, curvature: Array) -> float:
        """kappa: the supremum over all rows x of sum_j x_j**2 / curvature_j, for positive `curvature`, shape (p,)."""
        return self.norm_bound("l2", np.asarray(curvature, dtype=float) ** -0.5) ** 2

    def back_transform(self) -> tuple[Array, Array]:
        """A, shape (p, p), and shift, shape (p,): coefficients in the user's units are A @ scaled + shift."""
        size = self.response.scale
        matrix, shift = np.diag(size / self.scale), np.zeros(len(self.names))
        if self.has_intercept:
            at = self.names.index("Intercept")
            matrix[at] -= size * self.center / self.scale
            shift[at] = self.response.center - self.offset_center
        return matrix, shift

    def with_working(self, low: float, high: float) -> Self:
        """The design with a continuous response scaled by [low, high], in the user's units; rows are clipped as before.

        Whatever the interval is, it changes no bound on a row of columns: the family's cap bounds the response's part.
        """
        center, scale = scaling(low, high, self.has_intercept)
        spec = replace(self.response, center=center, scale=scale, working=(low, high))
        return replace(self, response=spec, encoder=replace(self.encoder, spec=spec))

    def response_scaling(self) -> tuple[float, float]:
        """Middle and half width: a continuous response in the user's units is middle + half width * scaled."""
        return self.response.center, self.response.scale
