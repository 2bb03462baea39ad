"""What every release has in common: its summary in every form, and its values on disk, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpstats.arguments import check_path, safe_repr
from dpstats.errors import DataError, NotReleasedError
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.summaries import Summary
from dpstats.writing import write_file, written_text


def marked_title(title: str, guarantee: Guarantee) -> str:
    """The title, below a line that marks a release without a guarantee."""
    return title if guarantee.certified else f"*** NOT CERTIFIED ***\n{title}"


def privacy_level(guarantee: Guarantee) -> str:
    """The budget as it stands before "-differentially private"."""
    return f"({guarantee.eps:.4g}, {guarantee.delta:.4g})" if guarantee.delta else f"{guarantee.eps:.4g}"


def guarantee_sentence(guarantee: Guarantee, what: str, rest: str = "") -> str:
    """The first note of a release: that `what` ("The choice is") is private, and by which proof."""
    if not guarantee.certified:
        return f"No guarantee is claimed for this output: {guarantee.reason}."
    level, proof = privacy_level(guarantee), cite_proof(guarantee.basis)
    return f"{what} {level}-differentially private for {guarantee.difference}, by {proof}{rest}."


class Printed:
    """An object that is shown by its summary."""

    def summary(self) -> Summary:
        """The tables and the notes; as_text, as_html, as_latex and as_markdown."""
        raise NotImplementedError

    def to_latex(self, path: str | Path | None = None, *, label: str = "") -> str:
        """The summary as LaTeX, centred tabulars and the notes below them, also written to `path` if one is given.

        With a label it is a table environment, whose caption is the title of the first table.
        """
        return written_text(path, self.summary().as_latex(label))

    def to_html(self, path: str | Path | None = None) -> str:
        """The summary as HTML, also written to `path` if one is given, there with its encoding, UTF-8."""
        text = self.summary().as_html()
        written_text(path, f'<meta charset="utf-8">\n{text}')
        return text

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The summary as Markdown, also written to `path` if one is given."""
        return written_text(path, self.summary().as_markdown())

    def to_docx(self, path: str | Path) -> None:
        """Write the summary as a Word file; needs the package python-docx (extra "word").

        Examples
        --------
        >>> import tempfile
        >>> import dpstats as dp
        >>> rows = {"x": [0.2, 0.9, 0.4], "y": [0, 1, 1]}
        >>> fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": [0, 1]}, seed=1)
        >>> "tabular" in fit.to_latex(), "<td" in fit.to_html(), "|---:|" in fit.to_markdown()
        (True, True, True)
        >>> fit.to_docx(f"{tempfile.mkdtemp()}/table.docx")
        """
        write_file(path, self.summary().as_docx())

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.to_html()

    def __str__(self) -> str:
        return self.summary().as_text()


OF_MODELS = (
    "aic", "bic", "bse", "budget", "compare", "comparisons", "conf_int", "cov_params", "debiased", "deviance",
    "df_model", "df_resid", "effects", "f_test", "family", "fitstats", "fittedvalues", "formula",
    "get_margeff", "get_prediction", "glance", "identified", "information", "llf", "n_obs", "nobs", "noise",
    "params", "plot", "predict", "predictions", "pvalues", "resid", "residuals", "rsquared", "scale",
    "t_test", "tidy", "to_frame", "tvalues", "uncertainty", "vcov", "wald_test", "wald_test_terms",
)  # fmt: skip
"""What users of statsmodels or R look for in a fitted model; not every release has it."""

OFFERED = ("params", "conf_int", "tidy", "to_frame", "between", "curves", "quantile", "survival", "predict", "plot")
"""What a message about another name lists, as far as a release has it."""

OTHER_NAMES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("coef", "coef_", "coefs", "coefficients"), ("params", "the coefficients are params")),
    **dict.fromkeys(("se", "std_err", "std_errors", "stderr"), ("bse", "bse has the standard errors")),
    "confint": ("conf_int", "conf_int() has the intervals"),
    **dict.fromkeys(
        ("avg_slopes", "get_margins", "marginal_effects", "margins", "slopes"),
        ("get_margeff", "get_margeff() has average marginal effects"),
    ),
    "avg_comparisons": ("comparisons", "comparisons() has average changes of the mean"),
    "avg_predictions": (
        "predictions",
        "predictions() has averages over the rows, and get_prediction(newdata).summary_frame() means at public rows",
    ),
    **dict.fromkeys(
        ("noise_sd", "noise_se"),
        ("noise_at_most", "noise_at_most bounds the standard deviation of the privacy noise in a coefficient"),
    ),
    **dict.fromkeys(("to_csv", "to_excel"), ("tidy", "tidy().{name}(path) writes the coefficients")),
}
"""What other packages call what a release may have: its name here, and where it is then."""


_SLOPES = "its params are changes of the mean response, and t_test has those of several columns together"
OF_LINES: Mapping[str, str] = {
    **dict.fromkeys(("comparisons", "effects", "get_margeff"), _SLOPES),
    "predictions": "predict(newdata) has predictions for public rows",
    **dict.fromkeys(
        ("deviance", "fitstats", "fvalue", "f_pvalue", "rsquared", "rsquared_adj", "rsquared_within", "ssr"),
        "glance() has what was released of the whole model, and wald_test tests slopes together",
    ),
    "notes": "summary() prints its notes",
    **dict.fromkeys(("left_out", "selection"), "it has all columns of its formula"),
    **dict.fromkeys(("excess_risk", "noise_at_most"), "bse has the standard errors, with the noise"),
    "focus": "conf_int() has intervals of all coefficients",
}
"""What there is instead in models whose columns change the mean by their coefficients alone, by name."""


class Released(Printed):
    """Released values and public facts; their file names their class."""

    not_released: ClassVar[Mapping[str, str]] = {}
    """What is a function of the rows, by name, and what there is instead."""

    instead: ClassVar[Mapping[str, str]] = {}
    """What to use in the place of what other models have, by its name."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            own = getattr(type(self), name, None)
            if own is not None:
                # Its NotReleasedError, an AttributeError, has led here: raise it again.
                return own.__get__(self)
            kind = type(self).__name__
            known, where = OTHER_NAMES.get(name, (name, ""))
            if hasattr(type(self), known) and known not in self.instead:
                raise AttributeError(f"{kind!r} object has no attribute {name!r}; {where.format(name=name)}")
            if known in self.not_released:
                instead = self.not_released[known]
                raise NotReleasedError(f"{name} was not released: the budget has not paid for it; {instead}")
            if known in self.instead:
                raise NotReleasedError(f"{name} is not offered for {kind}: {self.instead[known]}")
            if known in OF_MODELS:
                has = ", ".join(one for one in OFFERED if hasattr(type(self), one))
                raise NotReleasedError(f"{name} is not offered for {kind}, which has summary{has and ', '}{has}")
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain released and public values, for JSON."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        raise NotImplementedError

    def __dask_tokenize__(self) -> str:
        """What Dask tells it from others by, as in ``frame.map_partitions(result.predict, meta=(None, float))``."""
        return json_text(self)

    def save(self, path: str | Path) -> None:
        """Write the released values and the public facts as JSON.

        Examples
        --------
        >>> import tempfile
        >>> import dpstats as dp
        >>> rows = {"x": [0.2, 0.9, 0.4], "y": [0, 1, 1]}
        >>> fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": [0, 1]}, seed=1)
        >>> fit.save(path := f"{tempfile.mkdtemp()}/fit.json")
        >>> dp.GLMResults.load(path).summary().as_text() == fit.summary().as_text()
        True
        >>> dp.GLMResults.from_dict(fit.to_dict()).nobs is None  # the same as plain values
        True
        """
        write_file(path, json_text(self).encode("utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            If there is no such file, or it is not one that `save` wrote.
        """
        if not check_path("path", path).is_file():
            raise DataError(f"path: there is no file {safe_repr(str(path))}")
        kind = cls.__name__
        try:
            facts = json.loads(Path(path).read_text())
            # Older files do not name their kind.
            if (facts.pop("format"), facts.pop("kind", kind)) != (1, kind):
                raise ValueError("unknown format")
            return cls.from_dict(facts)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"path: {safe_repr(str(path))} is not a file written by {kind}.save") from error


def load_any(path: str | Path, find: Callable[[str], type[Released]]) -> Released:
    """What `Released.save` wrote, of whichever kind: `find` gives the class of a name, or raises KeyError."""
    if not check_path("path", path).is_file():
        raise DataError(f"path: there is no file {safe_repr(str(path))}")
    try:
        kind = find(json.loads(Path(path).read_text())["kind"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"path: {safe_repr(str(path))} is not a file that a result's save(path) wrote, or one of an older version: "
            "such a file is loaded by its class, as in dp.GLMResults.load(path)"
        ) from error
    return kind.load(path)


def json_text(released: Released) -> str:
    """The text of the file that `Released.save` writes."""
    facts = {"format": 1, "kind": type(released).__name__, **released.to_dict()}
    return json.dumps(facts, indent=1, allow_nan=False)
