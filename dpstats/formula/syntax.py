"""What formulas hold besides expressions: offset, weights, counts, R's spellings; hints for what is refused."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Sequence

from dpstats.errors import ArgumentError, FormulaError
from dpstats.proof_pages import cite_proof
from dpstats.wording import argument

QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
"""Text in a formula that is no code."""

COLUMN = r"\b[^\W\d]\w*\b(?!\s*\()"
"""A name in a formula that is not that of a function."""

OTHER_NAMES = {
    "as_factor": "write factor(...) or C(...)",
    "as_numeric": "declare the column as a range (low, high)",
    "s": "write cr(..., df=4, constraints='center') for a smooth term",
    "ns": "write cr(..., df=4, constraints='center') for a natural spline, df as in ns",
    "relevel": "write C(g, Treatment('b')) to measure from level b",
    "ifelse": "write np.where(condition, a, b)",
    "round": "write np.rint(...)",
    "ceiling": "write np.ceil(...)",
    "interaction": "write a:b",
    "lag": "it reads another row; add its value as a column",
    "mean": "it combines rows; center(...) centres by the declared range",
    "qcut": "quantiles depend on the data; write cut(x, [0, 10, 20])",
    "ntile": "quantiles depend on the data; write cut(x, [0, 10, 20])",
    "onehot": "write C(...)",
    "i": "there are no i() terms; write C(g, Treatment('b')) or a:b",
}
"""What others call otherwise, and what to write."""

SYMBOLS = (
    (r"%in%", "%in%", "write I((g == 'a') | (g == 'b'))"),
    (r"`", "`", "names with spaces are Q('my column')"),
    (r"\^", "^", "write (a + b)**2 for interactions and I(x**2) for powers"),
    (
        r"\|",
        "|",
        "write + C(g) for an effect of each level (there are no random effects), or I((x > 1) | (z > 1)) for a "
        "condition; in Python dp.ols, dp.glm and dp.plan take y ~ x | g, of one column at the end",
    ),
)
"""What no formula may hold outside of a call, and what to write."""


def locate(message: str, at: int | None) -> str:
    """The message with its place in the formula, unless it names one; `at` counts from 0."""
    if at is None or " (character " in message:
        return message
    return f"{message} (character {at + 1} of the formula)"


def as_python(formula: str) -> str:
    """The formula with R's ``as.factor(`` and ``as.numeric(`` as Python can read them; every place stays."""
    pattern = rf"({QUOTED})|\bas\.(factor|numeric)(\s*)\("

    def name(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        return "factor   " + match[3] + "(" if match[2] == "factor" else f"as_numeric{match[3]}("

    return re.sub(pattern, name, formula)


def refuse_symbols(formula: str) -> None:
    """Raise FormulaError for R's operators that mean something else here, or nothing.

    Within a call they are Python's: ``I((x > 1) | (z > 1))``.
    """
    if "~" not in formula and (match := re.search(r"(?<![=<>!])=(?!=)", _outside(formula))):
        raise FormulaError(locate("'=' is refused: write y ~ x, with ~ between response and terms", match.start()))
    bare = _outside(formula)
    for pattern, symbol, fix in SYMBOLS:
        if match := re.search(pattern, bare):
            raise FormulaError(locate(f"{symbol!r} is refused: {fix}", match.start()))


def absorbed_factor(formula: str) -> tuple[str, str | None]:
    """The formula without ``| firm`` at its end, and the column that it names; None if it absorbs none.

    FormulaError unless it is one column: two factors have no bound (docs/proofs/absorbed, 6).
    """
    bare = _outside(formula) if isinstance(formula, str) else ""
    bars = [match.start() for match in re.finditer(r"\|", bare)]
    if not bars or "~" not in bare[: bars[0]]:
        return formula, None
    text = formula[bars[0] + 1 :].strip()
    # (1 | g) and (x > 1) | (z > 1) mean something else, which the parser refuses.
    if any(bare[:bar].count("(") > bare[:bar].count(")") for bar in bars) or re.search(r"[<>=]", bare[bars[0] :]):
        return formula, None
    name = re.fullmatch(rf"Q\(\s*({QUOTED})\s*\)", text)
    column = ast.literal_eval(name[1]) if name else text
    if len(bars) == 1 and column and (name or (text.isidentifier() and not keyword.iskeyword(text))):
        return formula[: bars[0]].rstrip(), column
    if len(bars) > 1 or re.search(r"[-+*:/^%]", text):
        # Controls stand on both sides of the bar of instruments.
        before, behind = (set(re.findall(COLUMN, part)) for part in (formula[: bars[0]].partition("~")[2], text))
        if both := before & behind:
            reason = (
                f"{min(both)} stands on both sides of |, behind which one factor is absorbed, as in y ~ x | firm; "
                "instruments are for released statistics, in Python: dp.release_statistics(...).iv('y ~ x + w | z + w')"
            )
            raise FormulaError(locate(f"formula: {reason}", bars[0]))
        reason = (
            "one factor can be absorbed, not two: a single row that links two of their levels may change the sums "
            f"by as much as there are levels ({cite_proof('docs/proofs/absorbed, 6')}). Absorb the one with the most "
            "levels, and write the other as dummies with declared levels: y ~ x + C(year) | firm"
        )
    else:
        reason = "what stands behind | is the name of one column, as in y ~ x | firm or y ~ x | Q('firm id')"
    raise FormulaError(locate(f"formula: {reason}", bars[0]))


def share_hint(name: str) -> str:
    """What to write for a share of counts, which others pass with the counts as weights."""
    name = name.strip()
    code = name[2:-1] if name.startswith("I(") and name.endswith(")") else name
    above, slash, below = (part.strip() for part in code.partition("/"))
    if not slash:
        return ""
    return f"; for a share of counts write cbind({above}, {below} - {above}) ~ ..., without weights"


def dots(formula: str) -> Iterator[int]:
    """Where a formula has ``.`` for all columns."""
    pattern = r"(?<![\w.)\]])\.(?![\w.])"
    return (match.start() for match in re.finditer(pattern, _outside(formula)))


def _outside(formula: str) -> str:
    """The formula with quoted text and the arguments of calls blanked, every place kept."""
    text = re.sub(QUOTED, lambda match: "_" * len(match[0]), formula)
    kept, stack = [], []
    for place, letter in enumerate(text):
        if letter == "(":
            before = text[:place].rstrip()[-1:]
            stack.append(before.isalnum() or (before in ("_", ")", "]") and before != ""))
        inside = any(stack)
        if letter == ")" and stack:
            stack.pop()
        kept.append("_" if inside and letter not in "()" else letter)
    return "".join(kept)


AUXILIARY = {
    "subset": (1, "subset(age >= 18)"),
    "offset": (1, "offset(np.log(t))"),
    "weights": (1, "weights(w)"),
    "cbind": (2, "cbind(successes, failures)"),
}
"""The calls that are no columns: how many arguments each takes, and an example."""


def auxiliary_call(code: str) -> tuple[str, tuple[str, ...]] | None:
    """Which of `AUXILIARY` a factor calls, with the code of its arguments; None for an ordinary factor.

    Raises FormulaError if there are too many arguments or too few.
    """
    try:
        tree = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    match tree:
        case ast.Call(func=ast.Name(name), args=arguments, keywords=keywords) if name in AUXILIARY:
            count, example = AUXILIARY[name]
            if len(arguments) != count or keywords:
                raise FormulaError(f"{code}: {name}() takes {count} expression(s) of columns, as in {example}")
            return name, tuple(ast.get_source_segment(code, argument) or code for argument in arguments)
    return None


def add_terms(
    formula: str,
    *,
    weights: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    subset: str | None = None,
) -> str:
    """The formula with what the arguments of a call, columns' names or expressions, add to it.

    Raises ArgumentError if one of them is no text: an array of private values, say.
    """
    for name, code in (("weights", weights), ("offset", offset), ("exposure", exposure), ("subset", subset)):
        if code is None:
            continue
        if not isinstance(code, str) or not code.strip():
            raise ArgumentError(
                f"{name} must be the name of a column of the data or an expression of columns, such as "
                f"{argument(name, name[0])}; got {type(code).__name__}"
            )
        added = f"offset(np.log({code.strip()}))" if name == "exposure" else f"{name}({code.strip()})"
        formula = f"{formula} + {added}"
    return formula


def one_at_most(formula: str, name: str, places: Sequence[int | None]) -> None:
    """Raise FormulaError if a formula has weights, or a subset, in several places: which of them would count?"""
    if len(places) > 1:
        fix = {"weights": "their product: weights(a * b)", "subset": "one condition: subset((a > 1) & (b > 1))"}[name]
        message = f"formula {formula!r} has several {name}; write {fix}"
        raise FormulaError(locate(message, places[1]))
