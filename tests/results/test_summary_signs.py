"""Tables in HTML and LaTeX: signs of names mean nothing to either."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp


class TestSigns:
    """Names and levels are text wherever they are shown, whatever they hold."""

    BAD = "<img src=x onerror=alert(1)>"

    def shown(self) -> Any:
        rng = np.random.default_rng(0)
        levels = ["<b>a</b>", "50% & more_or_less"]
        rows = pd.DataFrame({self.BAD: rng.uniform(0, 1, 300), "y<script>": rng.uniform(0, 1, 300)})
        rows["g"] = rng.choice(levels, 300)
        domain = {self.BAD: (0, 1), "g": levels, "y<script>": (0, 1)}
        return dp.glm(f"Q('y<script>') ~ Q('{self.BAD}') + g", rows, 1.0, domain=domain)

    def test_html(self) -> None:
        fit = self.shown()
        pages = [fit.summary(full=True), fit.summary(), fit.plan.summary(), dp.etable([fit, fit]).summary()]
        for page in [*(one.as_html() for one in pages), fit._repr_html_()]:
            assert "<img" not in page
            assert "<script" not in page
            assert "<b>a" not in page
            assert "&lt;script&gt;" in page
            assert "&amp;lt;" not in page

    def test_markdown(self) -> None:
        """Of a level "a<b>c" a tag was lost."""
        fit = self.shown()
        table = dp.etable([fit], title="a < b")
        for page in (fit.to_markdown(), fit.summary(full=True).as_markdown(), table.to_markdown()):
            assert not re.search("<[a-z/]", re.sub("`[^`]+`", "", page))
            assert "&lt;img src=x" in page
            assert "50% & more_or_less" in page
            assert "&amp;" not in page
        assert "**a < b**" in table.to_markdown()

    def test_latex(self) -> None:
        for page in (self.shown().to_latex(), self.shown().summary(full=True).as_latex()):
            lines = page.splitlines()
            assert not any(line.startswith(("%", r"\caption")) and not line.startswith("%\\caption{") for line in lines)
            assert sum(line.count("{") - line.count(r"\{") for line in lines) == sum(
                line.count("}") - line.count(r"\}") for line in lines
            )
            # A bare sign of these would end the line or the cell.
            assert not re.search(r"(?<!\\)#|(?<!\\)%(?!\\caption)|(?<!\\)_", page.replace(r"\\", ""))


def test_a_caption_has_a_separator_wherever_a_heading_ends() -> None:
    """Where the heading filled its line, the caption went on without one: `(s.d. 7) deviance explained`."""
    rng = np.random.default_rng(0)
    name, x = "income_above_fifty_grand", rng.uniform(0, 1, 4000)
    rows = {"x": x, name: (rng.uniform(size=4000) < 1 / (1 + np.exp(1 - 3 * x))).astype(int)}
    fit = dp.logit(f"{name} ~ x", rows, 20.0, domain={"x": (0, 1), name: [0, 1]}, seed=1)
    heading = re.compile(rf"; Pr\({name} = 1\); logit link; rows: about [\d,]+ \(s\.d\. \d+\); deviance explained ")
    for page in (fit.to_html(), fit.to_markdown().replace("\\_", "_"), fit.to_latex().replace("\\_", "_")):
        assert heading.search(page)
    above, below = str(fit.summary()).split("deviance explained")[0].splitlines()[-2:]
    assert above.strip().startswith(f"Pr({name} = 1); logit link; rows: about")
    assert below.strip() == ""  # what centres the heading that follows
