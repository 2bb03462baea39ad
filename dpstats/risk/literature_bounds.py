"""The bounds printed in the sources, as printed, in one notation (docs/risk, the printed bounds).

All values are in units of the sum objective: a per-row bound is multiplied by n. Notation of the sources:

=====================  ===========================================================================
here                   there
=====================  ===========================================================================
curvature m            n Lambda (Chaudhuri et al.), Delta (Kifer et al., Fukuchi et al.), n_e l'' V_(1) (Li & Liu)
lipschitz              1 (Chaudhuri et al.), zeta (Kifer et al., Fukuchi et al.), zeta_1 zeta_2 (Li & Liu)
smoothness             c (Chaudhuri et al.), lambda (Fukuchi et al.), zeta_3 (Li & Liu), beta (lecture)
radius                 ||f_0||, ||w^||, eta, ||theta^0||
=====================  ===========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

CHAUDHURI = "Chaudhuri et al. 2011"
KIFER = "Kifer et al. 2012"
NAPP = "Li & Liu, NAPP-ERM"
FUKUCHI = "Fukuchi et al. 2017"
LECTURE = "Wang 2021, lecture 10"

SHARE = 0.5  # r, the share of eps that NAPP-ERM spends on the noise

Gap = Literal["regularised", "regularised, on the region", "unregularised", "population"]
Statement = Literal["quantile", "mean", "order"]


@dataclass(frozen=True)
class PublicSetting:
    """The public values the printed bounds are functions of, as the table above names them."""

    columns: int  # p
    eps: float
    delta: float
    pi: float  # Probability that a bound may fail
    curvature: float  # m, the least entry of the diagonal
    lipschitz: float  # sup ||grad l||, the product of sup |l'| and the row bound
    smoothness: float  # sup l'' times the square of the row bound
    radius: float  # Norm of the comparator
    rows: int | None = None  # n, where it is public or assumed

    @property
    def shrinkage(self) -> float:
        """m R^2 / 2."""
        return 0.5 * self.curvature * self.radius**2

    @property
    def gamma_norm(self) -> float:
        """p log(p / pi), lemma 4 of Chaudhuri et al.: a bound on a Gamma(p) variable."""
        return self.columns * math.log(self.columns / self.pi)


@dataclass(frozen=True)
class Bound:
    """One bound, as its source states it."""

    gap: Gap  # What is bounded: the objective with its quadratic term, without it, or the risk of a new row times n
    # A level that the gap exceeds with probability at most pi, its mean, or an order of growth of unknown constant.
    statement: Statement
    source: str
    value: float  # NaN if it needs n and n is not given
    note: str
    same_mechanism: bool = True  # False if the bound is not about a minimiser of the perturbed objective


OUTPUT, INPUT = "output perturbation; needs n", "input perturbation of a quadratic loss; needs n"
"""What the bounds of other mechanisms are about."""

LEMMA_7 = "rests on lemma 7, which fails and mixes units"

NOTES = {
    (CHAUDHURI, "lemma 5, eq. (66)"): "eps stands where algorithm 2 uses eps' < eps: up to 4 times too small",
    (CHAUDHURI, "theorem 4, eqs. (61), (65)"): "without its O(log(1/pi)) sampling term, whose constant is not given",
    (CHAUDHURI, "lemma 3, eq. (48)"): f"{OUTPUT}; theorem 3 quotes it with 8 for 2",
    (CHAUDHURI, "theorem 3, eqs. (45), (46)"): f"{OUTPUT}; without its sampling term",
    (NAPP, "theorem 8"): "the constant is twice what is needed; the step to a mean is not valid",
    (NAPP, "theorem 8, shrunk"): "as printed, a misplaced bracket multiplies the shrinkage by the noise",
    (NAPP, "lemma 7, eq. (16)"): "the bracket in its place; its proof needs R_t >= R, false for a lasso that shrinks",
    (NAPP, "theorem 10, eq. (39)"): "without its sampling term, whose constant C' is not given",
    (KIFER, "lemma 9"): "the constant is four times what is needed",
    (KIFER, "lemma 2"): "the first two terms of lemma 2; eight and two times what is needed",
    (KIFER, "table 1"): "order only: the constant is not given, 1 is taken",
    (FUKUCHI, "lemma 2, eq. (22)"): f"{INPUT}; {LEMMA_7}; lemma 2 drops a term of (22)",
    (FUKUCHI, "theorem 2, eq. (25)"): f"{INPUT}; {LEMMA_7}",
    (LECTURE, "utility of output perturbation"): f"{OUTPUT}; its noise is enough for eps <= 1 only",
}
"""What is known of each bound, by paper and place."""


def _bound(gap: Gap, statement: Statement, paper: str, place: str, value: float, shown: str | None = None) -> Bound:
    """The bound of a paper at a place, which a table names as `shown`."""
    note, source = NOTES[paper, place], f"{paper}, {place if shown is None else shown}"
    return Bound(gap, statement, source, value, note, same_mechanism=not note.startswith((OUTPUT, INPUT)))


def printed_bounds(setting: PublicSetting) -> list[Bound]:
    """The printed bounds for noise of the kind that delta asks for: Laplace if it is 0, else Gaussian."""
    sources = (chaudhuri, napp, kifer) if setting.delta == 0 else (napp, kifer, fukuchi, lecture)
    return [bound for source in sources for bound in source(setting)]


def chaudhuri(setting: PublicSetting) -> list[Bound]:
    """Lemma 5 and theorem 4 (objective perturbation), lemma 3 and theorem 3 (output perturbation)."""
    noise = (2 * setting.lipschitz * setting.gamma_norm / setting.eps) ** 2
    moduli = _with_rows(setting, lambda rows: (setting.smoothness * rows + setting.curvature) / setting.curvature**2)
    curvature, shrinkage = setting.curvature, setting.shrinkage
    return [
        _bound("regularised", "quantile", CHAUDHURI, "lemma 5, eq. (66)", noise / curvature),
        _bound("population", "order", CHAUDHURI, "theorem 4, eqs. (61), (65)", 2 * noise / curvature + shrinkage),
        _bound("regularised", "quantile", CHAUDHURI, "lemma 3, eq. (48)", noise * moduli / 2),
        _bound("population", "order", CHAUDHURI, "theorem 3, eqs. (45), (46)", 4 * noise * moduli + shrinkage),
    ]


def napp_noise_square(setting: PublicSetting) -> float:
    """Bound on ||b||^2 in the proof of theorem 8 (S.6)."""
    unit = setting.lipschitz / (SHARE * setting.eps)
    if setting.delta == 0:
        return (unit * setting.gamma_norm) ** 2
    budget = SHARE * setting.eps + math.log(2 / setting.delta)
    return 4 * setting.columns * unit**2 * budget * math.log(1 / setting.pi)


def napp_sample_constant(setting: PublicSetting) -> float:
    """C of theorem 10, with the factor 2 that the text gives in the pure case only."""
    return napp_noise_square(setting) * (2 if setting.delta == 0 else 1)


def napp(setting: PublicSetting) -> list[Bound]:
    """Lemma 7, theorem 8 and theorem 10."""
    noise, curvature, shrinkage = napp_noise_square(setting), setting.curvature, setting.shrinkage
    shown = f"theorem 8, eq. {'(18)' if setting.delta == 0 else '(19)'}"
    order = napp_sample_constant(setting) / curvature + shrinkage
    return [
        _bound("regularised", "quantile", NAPP, "theorem 8", noise / curvature, shown),
        _bound("unregularised", "quantile", NAPP, "theorem 8, shrunk", noise * (1 / curvature + shrinkage), shown),
        _bound("unregularised", "quantile", NAPP, "lemma 7, eq. (16)", noise / curvature + shrinkage),
        _bound("population", "order", NAPP, "theorem 10, eq. (39)", order),
    ]


def kifer_noise_square(setting: PublicSetting) -> float:
    """Bound on ||b||^2: lemma 28 as quoted by Fukuchi et al., eq. (19), or the gamma bound in the pure case."""
    if setting.delta == 0:
        return (2 * setting.lipschitz * setting.gamma_norm / setting.eps) ** 2
    budget = 8 * math.log(2 / setting.delta) + 4 * setting.eps
    return 2 * setting.columns * setting.lipschitz**2 * budget * math.log(1 / setting.pi) / setting.eps**2


def kifer(setting: PublicSetting) -> list[Bound]:
    """The utility of objective perturbation as Fukuchi et al. quote it: lemma 9, lemma 2 and table 1."""
    noise, quoted = 2 * kifer_noise_square(setting) / setting.curvature, f"as quoted in {FUKUCHI}"
    bounds = [
        _bound("regularised", "quantile", KIFER, "lemma 9", noise, f"{quoted}, lemma 9"),
        _bound("unregularised", "quantile", KIFER, "lemma 2", noise + setting.shrinkage, f"{quoted}, lemma 2"),
    ]
    if setting.delta > 0:
        rate = setting.lipschitz * math.sqrt(setting.columns * math.log(1 / setting.delta)) / setting.eps
        bounds.append(_bound("unregularised", "order", KIFER, "table 1", setting.radius * rate, f"{quoted}, table 1"))
    return bounds


def fukuchi(setting: PublicSetting) -> list[Bound]:
    """Lemma 2 (by its proof, eq. 22) and theorem 2 (by its proof, eq. 25): input perturbation of a quadratic loss."""
    eps, columns, smooth = setting.eps, setting.columns, setting.smoothness
    failure = setting.delta / 2  # gamma of their algorithm 1
    unit = columns * setting.lipschitz**2 * (8 * math.log(4 / setting.delta) + 4 * eps) / (eps**2 * setting.curvature)

    def square(rows: int) -> tuple[float, float]:
        """sigma_u and the shrinkage by m and by what sigma_u^2 exceeds 2 lambda / eps."""
        part = math.sqrt(math.log(2 / failure) / rows)
        if part >= 0.5:
            return math.nan, math.nan
        lead = math.sqrt(2 * columns) * part * smooth
        sigma = (lead + math.sqrt(lead**2 + 2 * smooth / eps * (1 - 2 * part))) / (1 - 2 * part)
        return sigma, setting.shrinkage + 0.5 * (sigma**2 - 2 * smooth / eps) * setting.radius**2

    def quantile(rows: int) -> float:
        sigma, shrinkage = square(rows)
        if setting.pi <= failure:
            return math.nan
        rest = sigma**2 * (math.sqrt(math.log(4 / failure)) + math.log(4 / failure) / math.sqrt(rows))
        rest += sigma * smooth * math.sqrt(2 * columns * math.log(2 / failure))
        noise = 4 * unit * math.log(1 / (setting.pi - failure))
        return noise + shrinkage + rest * setting.radius**2 / math.sqrt(rows)

    def mean(rows: int) -> float:
        sigma, shrinkage = square(rows)
        rest = sigma**2 * (math.log(4) + 3) + 2 * sigma**2 * (math.log(4) + 2) / math.sqrt(rows)
        rest += math.sqrt(2 * columns) * smooth * sigma * (math.log(2) + 3)
        return 8 * unit + shrinkage + rest * setting.radius**2 / (2 * math.sqrt(rows))

    return [
        _bound("unregularised", "quantile", FUKUCHI, "lemma 2, eq. (22)", _with_rows(setting, quantile)),
        _bound("unregularised", "mean", FUKUCHI, "theorem 2, eq. (25)", _with_rows(setting, mean)),
    ]


def lecture(setting: PublicSetting) -> list[Bound]:
    """Output perturbation with Gaussian noise."""
    unit = setting.columns * (setting.lipschitz / (setting.curvature * setting.eps)) ** 2
    logs = math.log(1.25 / setting.delta) * math.log(setting.columns / setting.pi)
    value = _with_rows(setting, lambda rows: 2 * (rows * setting.smoothness + setting.curvature) * unit * logs)
    return [_bound("unregularised", "quantile", LECTURE, "utility of output perturbation", value + setting.shrinkage)]


def _with_rows(setting: PublicSetting, value: Callable[[int], float]) -> float:
    """A value that needs n: NaN without it."""
    return math.nan if setting.rows is None else value(setting.rows)


def printed_sizes(
    setting: PublicSetting, target: float, method: str = "objective"
) -> list[tuple[str, str, int, str, str]]:
    """The sources' sample sizes, unknown constants taken as 1 (a factor) or 0 (a term); rows of the table."""
    lipschitz, radius, pi = setting.lipschitz, setting.radius, setting.pi
    sampling = (lipschitz * radius / target) ** 2 * math.log(1 / pi)
    noise = setting.gamma_norm * lipschitz * radius / (target * setting.eps)
    curved = setting.smoothness * radius**2 / target
    objective = max(sampling, curved / setting.eps, noise)
    smooth = setting.gamma_norm * lipschitz * math.sqrt(setting.smoothness) * radius**2
    output = max(sampling, noise, smooth / (target**1.5 * setting.eps))
    constant = napp_sample_constant(setting)
    split = SHARE * setting.eps
    napp = _balanced(constant, setting.smoothness / split, radius) / target
    quoted = _balanced(2 * kifer_noise_square(setting), 2 * setting.smoothness / setting.eps, radius) / target
    of_kifer, holds = f"{KIFER}, as quoted in {FUKUCHI}, lemma 2", "implied" if setting.delta == 0 else "other noise"
    vacuous = "C' = 0 taken; vacuous for targets below C' log(1/pi') / (2 m)"
    rows = [
        ("unregularised, same rows", of_kifer, quoted, holds, "solved for n at the curvature that is best for it"),
        ("population", f"{NAPP}, theorem 10, eq. (21)", napp, "order only", vacuous),
    ]
    if setting.delta == 0:
        taken = "output perturbation; C = 1 taken"
        rows += [
            ("population", f"{CHAUDHURI}, theorem 4, eq. (59)", objective, "order only", "C = 1 taken"),
            ("population", f"{CHAUDHURI}, theorem 3, eq. (43)", output, "order only", taken),
        ]
    own = method == "output"
    return [
        (bound, source, math.ceil(value), holds if own is note.startswith("output") else "other mechanism", note)
        for bound, source, value, holds, note in rows
    ]


def _balanced(noise: float, least: float, radius: float) -> float:
    """min of noise / m + m radius^2 / 2 over m >= least."""
    curvature = max(math.sqrt(2 * noise) / radius, least)
    return noise / curvature + curvature * radius**2 / 2
