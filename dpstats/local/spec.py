"""The public specification of a collection: what every contributor and the collector agree on beforehand."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

from scipy import optimize, special

from dpstats.arguments import check_choice, is_number, is_whole, safe_repr
from dpstats.cached import cached_property
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DomainError
from dpstats.local.encoding import Program
from dpstats.privacy.gaussian import analytic_mu, least_eps
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.privacy.randomness import check_scale

Family = Literal["gaussian", "binomial"]
Scheme = Literal["statistics", "features"]

FORMAT = 1
PROOF = "docs/proofs/local"
# A calibration beyond these would overflow; such an eps leaves no privacy, and no coefficient is so large
LEAST_RADIUS, MOST_EPS, LEAST_DELTA = 1e-50, 1e50, 1e-100
# Greatest ||p|| and ||q||^2 where ||x|| is at most 1: q = x and p = y x, or q = x/2 and p = (y - 1/2) x
BOUNDS: dict[str, tuple[float, float]] = {"gaussian": (1.0, 1.0), "binomial": (0.5, 0.25)}
# Least standard deviation of a report in lattice units; the proof needs 4, more makes rounding cheaper
LEAST_SCALE = 64
# Rounding to the lattice adds at most this share to the statistics' sensitivity
ROUNDING_SHARE = 1e-4
# Variance, in squared units, that the continuous mechanism loses to a randomised rounding
SMOOTHING = 16
SLACK = 1 + 1e-9  # Covers floating-point rounding, and a factor within 1e-60 of one
REFUSED_SHARE = 1e-10  # Share of delta that refusing dishonest reports may add; covered by `SLACK`
MOST_SENSITIVITY = 2.0**60  # Records this far apart, plus noise, still fit 64-bit integers
EXPOSED = (
    "a single report does not protect its record from those who see it: at this local_eps it distinguishes two "
    "records with an error rate below delta. Add up reports by a secure sum, or give local_eps instead of eps"
)

_log = logging.getLogger("dpstats")


@dataclass(frozen=True)
class ReportLattice:
    """The lattice of reports of `size` integers, `scale` units of noise in each, of which at least `n` are added."""

    size: int
    scale: int
    n: int
    # The greatest Euclidean distance, in units, between the integers of two records, rounding included.
    sensitivity: float

    def mu(self, reports: int) -> float:
        """The Gaussian mechanism's mu for the sum of so many reports, one of which changes."""
        return self.sensitivity * SLACK / math.sqrt(reports * self.scale**2 - SMOOTHING)

    def reach(self, delta: float) -> float:
        """Honest noise is within this many deviations of zero, and sqrt(size) plus this many in norm.

        It may exceed them with a probability that `SLACK` covers (docs/proofs/local, Theorem 2).
        """
        chances = math.log((2 * self.size + 1) * (self.n + 1)) - math.log(REFUSED_SHARE) - math.log(delta)
        by_itself, others = math.sqrt(2 * chances), max(2, (self.n + 1) // 2)
        return by_itself * math.sqrt(1 - 1 / others) + (by_itself + self.mu(others)) / math.sqrt(others)

    def exposed(self, delta: float) -> bool:
        """As `Spec.exposed`: the best test of a Gaussian mechanism has error rates that add up to 2 Phi(-mu/2)."""
        return bool(2 * special.ndtr(-self.mu(1) / 2) < delta)

    @property
    def unrounded(self) -> float:
        """The greatest distance of two records' statistics before rounding, in units."""
        return self.sensitivity - math.sqrt(self.size)


def lattice_for(mu: float, reports: int, size: int, n: int) -> ReportLattice:
    """The lattice on which the sum of `reports` reports has this mu.

    Rounding to the nearest integer moves each of two records' values by at most sqrt(size)/2. ArgumentError if its
    noise would leave the 64-bit integers, whose ends would show the record, or the records themselves would.
    """
    least_scale = math.sqrt(size) * math.sqrt(reports) / (ROUNDING_SHARE * mu) / reports
    scale = max(LEAST_SCALE, 2 ** math.ceil(math.log2(least_scale)))
    check_scale(scale)
    sensitivity = mu / SLACK * math.sqrt(reports * scale**2 - SMOOTHING)
    if not sensitivity <= MOST_SENSITIVITY:
        raise ArgumentError("eps is too large: with so little noise a record would exceed 64-bit integers")
    return ReportLattice(size, scale, n, sensitivity)


def joint_sensitivity(linear: float, square: float, sigma_b: float, tau: float) -> float:
    """The greatest distance between the statistics of two records, p divided by sigma_b and q q' by tau.

    Source: docs/proofs/local, Lemma 1: the square is the maximum over the cosine c in [0, 1] between the two p of
    2 a^2 B^2 (1 + c) + 2 b^2 lambda^2 (1 - c^2), a = 1/sigma_b, b = 1/tau. Separate maxima would add up to more.
    The null report, whose statistics are zero, is never farther from a record.
    """
    gradient, matrix = (linear / sigma_b) ** 2, (square / tau) ** 2
    cosine = min(1.0, gradient / (2 * matrix))
    return math.sqrt(2 * gradient * (1 + cosine) + 2 * matrix * (1 - cosine**2))


def best_ratio(linear: float, square: float, radius: float) -> float:
    """sigma_b / tau with the least noise sigma_b^2 + tau^2 radius^2 / 2 in the gradient's coordinates, at equal mu."""

    def noise(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        tau = joint_sensitivity(linear, square, ratio, 1.0)
        return tau**2 * (ratio**2 + radius**2 / 2)

    middle = math.log(max(linear, 1e-9) / square)
    optimum = optimize.minimize_scalar(
        noise, bounds=(middle - 8, middle + 8), method="bounded", options={"xatol": 1e-6}
    )
    return math.exp(float(optimum.x))


def printed_noise(eps: float, delta: float, n: int, size: int, linear: float, square: float) -> tuple[float, float]:
    """sigma_u and sigma_b of the paper's Algorithm 1 as printed, delta halved between its two events.

    Fukuchi, Tran and Sakuma 2017, with zeta = `linear`, lambda = `square`, d = `size`; its central guarantee is
    unproven (docs/proofs/local, 6). ArgumentError if `n` is too small for the formula to be defined.
    """
    half = delta / 2
    slack = math.sqrt(math.log(2 / half) / n)
    if 2 * slack >= 1:
        least = math.floor(4 * math.log(2 / half)) + 1
        raise ArgumentError(f"n must be at least {least} for scheme='features' with this delta, got {n}")
    sigma_b = linear * math.sqrt(8 * math.log(2 / half) + 4 * eps) / eps
    cross = math.sqrt(2 * size) * slack * square
    sigma_u = (cross + math.sqrt(cross**2 + 2 * square / eps * (1 - 2 * slack))) / (1 - 2 * slack)
    return sigma_u, sigma_b


def best_features(mu: float, n: int, size: int, linear: float, square: float, radius: float) -> tuple[float, float]:
    """sigma_u and sigma_b with the least noise in a debiased gradient, where one report has this mu.

    The debiased matrix has noise of variance about 2 sigma_u^2 square/size + sigma_u^4/n in an entry.
    """

    def pair(log_share: float) -> tuple[float, float]:
        share, unit = math.exp(log_share), 2 * math.sqrt(n) / mu
        return unit * math.sqrt(square / share), unit * linear / math.sqrt(1 - share)

    def noise(log_share: float) -> float:
        sigma_u, sigma_b = pair(log_share)
        return sigma_b**2 + radius**2 * (2 * sigma_u**2 * square / size + sigma_u**4 / n)

    optimum = optimize.minimize_scalar(noise, bounds=(-12.0, -1e-6), method="bounded", options={"xatol": 1e-6})
    return pair(float(optimum.x))


def features_sensitivity(linear: float, square: float, sigma_b: float, sigma_u: float) -> float:
    """The greatest distance between (p / sigma_b, q / sigma_u) of two records, by separate maxima."""
    return 2 * math.sqrt(square / sigma_u**2 + (linear / sigma_b) ** 2)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Spec:
    """A collection by input perturbation, fixed before anyone reports.

    Parameters
    ----------
    domain : Domain or dict
        Declares every column that the formula reads; each contributor's cells are clipped to it.
    formula : str
    eps : float, optional
        The central guarantee: of everything that is computed from the sum of the reports, to whoever sees nothing else.
    local_eps : float, optional
        Instead of `eps`: the guarantee of one report to the collector, who sees it. The other follows (seed Fukuchi,
        Tran and Sakuma 2017, section 3.5): both are Gaussian mechanisms and mu_local is about sqrt(n) mu_central.
    delta : float
        Of both guarantees, positive.
    n : int
        The promised least number of reports. The noise in each is a share 1/n of what the sum needs: fewer reports are
        refused by the collector, more only add noise.
    family : {"gaussian", "binomial"}
        Linear regression, or logistic regression by what second moments tell of it.
    scheme : {"statistics", "features"}
        What a report holds: (q q', p), certified for both guarantees; or the paper's (q, p): with `eps`, noise as
        printed and a central guarantee that is unproven; with `local_eps`, the best noise, and that guarantee alone.
    radius : float, optional
        A guess at the norm of the coefficients in model units, which shares the noise out between q q' and p.

    Raises
    ------
    ArgumentError
        If neither or both of `eps` and `local_eps` are given, or an argument is outside its allowed values.
    DomainError, FormulaError
        As `dp.plan`, from the public facts alone.

    Notes
    -----
    Neighbours differ in one record, which becomes another one or the null report of zeros; the number of reports is
    public. Whoever sends nothing at all also leaves out their noise: that is not covered. Proof: docs/proofs/local.

    Examples
    --------
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"y": (0, 10), "x": (0, 1)}, "y ~ x", eps=1.0, delta=1e-5, n=1000)
    >>> round(spec.mu_central, 4), round(spec.mu_local, 2), round(spec.local_eps)
    (0.2681, 8.48, 71)
    >>> dp.local.Spec.from_json(spec.to_json()).hash == spec.hash, spec.to_dict()["formula"]
    (True, 'y ~ x')
    >>> spec.central_guarantee(colluders=10).eps > spec.central_guarantee().eps
    True
    """

    formula: str
    family: Family
    scheme: Scheme
    n: int
    delta: float
    radius: float
    names: tuple[str, ...]  # The p columns of the design
    _facts: dict[str, Any]

    def __init__(
        self,
        domain: Domain | Mapping[str, Any],
        formula: str,
        *,
        eps: float | None = None,
        local_eps: float | None = None,
        delta: float,
        n: int,
        family: Family = "gaussian",
        scheme: Scheme = "statistics",
        radius: float | None = None,
    ) -> None:
        facts = _check_facts(eps, local_eps, delta, n, radius, family, scheme)
        # Compiling needs patsy's and the tables' machinery, which contributors, who read a finished one, do without.
        from dpstats.formula.redundant_columns import refuse_redundant
        from dpstats.local.compile import compile_program, local_design, typical_radius

        design = local_design(formula, domain, family)
        refuse_redundant(design.coding, design.domain, design.support)
        if radius is None:
            facts["radius"] = typical_radius(design, family)
        parts = {"domain": design.domain.to_dict(), "program": compile_program(design).to_dict()}
        self._bind({**facts, **parts, "format": FORMAT, "formula": formula, "names": list(design.names)})

    def _bind(self, facts: dict[str, Any]) -> None:
        """Set the attributes from public facts, and warn of exposed reports before anyone reports."""
        shown = ("formula", "family", "scheme", "n", "delta", "radius")
        vars(self).update({name: facts[name] for name in shown}, _facts=facts, names=tuple(facts["names"]))
        if self.exposed:  # errors of the calibration are raised here too
            _log.warning("dpstats: %s", EXPOSED)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return json.loads(self.to_json())

    def to_json(self) -> str:
        """The text that every contributor gets, and that `from_json` reads back."""
        return json.dumps(self._facts, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Read what `to_json` wrote; the noise is calibrated anew, never taken from the text.

        Raises
        ------
        ArgumentError, DomainError
            If `text` is anything else.
        """
        try:
            facts = json.loads(text, parse_constant=_refuse_constant)
            if facts["format"] != FORMAT:
                raise ArgumentError(f"text is a specification of format {facts['format']!r}, not {FORMAT}")
            names = ("eps", "local_eps", "delta", "n", "radius", "family", "scheme")
            if set(facts) != {*names, "format", "formula", "domain", "program", "names"}:
                raise DomainError("text has other fields than a specification written by Spec.to_json")
            if _check_facts(*(facts[name] for name in names))["radius"] is None:
                raise ArgumentError("radius must be a positive number in a specification")
            size = Program.from_dict(facts["program"]).size
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if isinstance(error, (ArgumentError, DomainError)):
                raise
            raise DomainError("text is not a specification written by Spec.to_json") from error
        if len(facts["names"]) != size:
            raise DomainError("the stored specification names more or fewer columns than its design has")
        spec = cls.__new__(cls)
        spec._bind(facts)
        return spec

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the specification, in every report: reports to another one are refused."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @cached_property
    def program(self) -> Program:
        """How a record becomes a row of the design."""
        return Program.from_dict(self._facts["program"])

    @property
    def domain(self) -> Domain:
        """The columns that the formula reads."""
        return Domain.from_dict(self._facts["domain"])

    @property
    def size(self) -> int:
        """The number of integers in a report."""
        p = len(self.names)
        return 2 * p if self.scheme == "features" else p + p * (p + 1) // 2

    @cached_property
    def lattice(self) -> ReportLattice:
        """The reports' lattice, with one record's sensitivity on it."""
        eps, local_eps = self._facts["eps"], self._facts["local_eps"]
        if local_eps is not None:
            return lattice_for(analytic_mu(local_eps, self.delta), 1, self.size, self.n)
        if self.scheme == "statistics":
            return lattice_for(analytic_mu(eps, self.delta), self.n, self.size, self.n)
        return lattice_for(math.sqrt(self.n) * self._shape[2], 1, self.size, self.n)

    @cached_property
    def _shape(self) -> tuple[float, float, float]:
        """Relative noise of p and of the rest, and the distance of two records in these units.

        In scheme "features" as printed for a central eps, the best there is for a local one.
        """
        (linear, square), p, eps = BOUNDS[self.family], len(self.names), self._facts["eps"]
        if self.scheme == "statistics":
            ratio = best_ratio(linear, square, self.radius)
            return ratio, 1.0, joint_sensitivity(linear, square, ratio, 1.0)
        if eps is not None:
            sigma_u, sigma_b = printed_noise(eps, self.delta, self.n, p, linear, square)
        else:
            mu = analytic_mu(self._facts["local_eps"], self.delta)
            sigma_u, sigma_b = best_features(mu, self.n, p, linear, square, self.radius)
        return sigma_b, sigma_u, features_sensitivity(linear, square, sigma_b, sigma_u)

    @cached_property
    def _noise(self) -> tuple[float, float]:
        """Standard deviations in the sum of n reports: of p, and of q q' (its scaled triangle) or q."""
        gradient, rest, sensitivity = self._shape
        # The statistics may take all of the lattice's sensitivity but what rounding takes.
        stretch = sensitivity * math.sqrt(self.n) * self.lattice.scale / self.lattice.unrounded
        return gradient * stretch, rest * stretch

    @property
    def sigma_b(self) -> float:
        """Standard deviation of the noise in each entry of the sum of p over n reports."""
        return self._noise[0]

    @property
    def tau(self) -> float:
        """The same of q q': on the diagonal; tau / sqrt(2) off it. Only scheme="statistics" has it."""
        if self.scheme == "features":
            raise ArgumentError("tau belongs to scheme='statistics'; the noise of features is sigma_u")
        return self._noise[1]

    @property
    def sigma_u(self) -> float:
        """sqrt(n) times the standard deviation of the noise in each entry of q. Only scheme="features" has it."""
        if self.scheme == "statistics":
            raise ArgumentError("sigma_u belongs to scheme='features'; the noise of statistics is tau")
        return self._noise[1]

    @property
    def units(self) -> tuple[float, float]:
        """Lattice units of p and of the rest of a report."""
        step = math.sqrt(self.n) * self.lattice.scale
        return self._noise[0] / step, self._noise[1] / step

    @property
    def mu_local(self) -> float:
        """Of one report, to whoever sees it: its (eps, delta) are those of a Gaussian mechanism of this mu."""
        return self.lattice.mu(1)

    @property
    def mu_central(self) -> float:
        """Of the sum of n reports. scheme="features" has none, since not only sums leave the collector."""
        if self.scheme == "features":
            raise ArgumentError("scheme='features' has no proof of a central guarantee; use scheme='statistics'")
        return self.lattice.mu(self.n)

    @property
    def eps(self) -> float:
        """The central eps: as given (in scheme="features" a mere claim), or as `local_eps` implies it."""
        if self._facts["eps"] is not None:
            return self._facts["eps"]
        return self.local_eps if self.scheme == "features" else least_eps(self.mu_central, self.delta)

    @property
    def local_eps(self) -> float:
        """The local eps, as given or as `eps` implies it."""
        given = self._facts["local_eps"]
        return given if given is not None else least_eps(self.mu_local, self.delta)

    @property
    def exposed(self) -> bool:
        """Whether the best test of two records by one report has error rates that add up to less than delta."""
        return self.lattice.exposed(self.delta)

    @property
    def local_guarantee(self) -> Guarantee:
        """Of one report, to the collector and whoever else sees it."""
        return Guarantee(self.local_eps, self.delta, "replace_one", basis=PROOF, mu=self.mu_local)

    def central_guarantee(self, colluders: int = 0) -> Guarantee:
        """Of the fit, to its readers, of whom `colluders` have sent reports and know the noise in these.

        Raises
        ------
        ArgumentError
            If `colluders` is not an integer from 0 to n - 1.
        """
        if not is_whole(colluders) or not 0 <= colluders < self.n:
            raise ArgumentError(f"colluders must be an integer from 0 to {self.n - 1}, got {safe_repr(colluders)}")
        if self.scheme == "features" and (colluders or self._facts["eps"] is None):
            return self.local_guarantee  # which holds for all that follows from reports, whoever colludes
        if self.scheme == "features":
            reason = "the paper's central claim for reports of features is unproven; the local guarantee holds"
            return Guarantee(self.eps, self.delta, "replace_one").uncertified(reason)
        mu = self.lattice.mu(self.n - colluders)
        eps = self.eps if colluders == 0 else least_eps(mu, self.delta)
        return Guarantee(eps, self.delta, "replace_one", basis=PROOF, mu=mu)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as text, since compiled parts cannot be pickled."""
        return Spec.from_json, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        budget = f"eps={self.eps:.4g}, local_eps={self.local_eps:.4g}"
        return f"<Spec {self.formula!r}, {self.family}, {self.scheme}: {budget}>"


def _refuse_constant(constant: str) -> NoReturn:
    """NaN and infinities are no numbers of JSON, whatever Python writes."""
    raise ValueError(f"{constant} is no number")


def _check_facts(eps: Any, local_eps: Any, delta: Any, n: Any, radius: Any, family: Any, scheme: Any) -> dict[str, Any]:
    """The arguments of a specification by their names, numbers as plain Python ones, or ArgumentError."""
    if (eps is None) == (local_eps is None):
        raise ArgumentError("give exactly one of eps (central) and local_eps")
    spent, _ = check_budget(local_eps if eps is None else eps, delta)
    if spent > MOST_EPS:
        raise ArgumentError(f"eps and local_eps must be at most {MOST_EPS:g}, got {safe_repr(spent)}")
    if not delta >= LEAST_DELTA:
        raise ArgumentError(f"delta must be at least {LEAST_DELTA:g}: the noise is Gaussian, got {safe_repr(delta)}")
    if not is_whole(n) or not 1 <= n <= 10**15:
        raise ArgumentError(f"n must be a positive integer, the promised least number of reports, got {safe_repr(n)}")
    if radius is not None and not (is_number(radius) and LEAST_RADIUS <= radius <= 1 / LEAST_RADIUS):
        raise ArgumentError(f"radius must be None or a positive number from 1e-50 to 1e50, got {safe_repr(radius)}")
    check_choice("family", family, get_args(Family))
    check_choice("scheme", scheme, get_args(Scheme))
    floats = {"eps": eps, "local_eps": local_eps, "delta": delta, "radius": radius}
    numbers = {name: None if value is None else float(value) for name, value in floats.items()}
    return {**numbers, "n": int(n), "family": family, "scheme": scheme}
