"""The proof pages, which come with the package: how printed notes cite them, and how they are read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError

_PAGES = Path(__file__).parent / "proofs"
_PREFIX = "docs/proofs/"


class HasProof(Protocol):
    """What names its proof; `dpstats.Guarantee`."""

    @property
    def basis(self) -> str:
        """The page, such as "docs/proofs/objective"."""


@dataclass(frozen=True)
class Proof:
    """A proof page.

    Attributes
    ----------
    name : str
        Such as "objective".
    text : str
        Markdown, with formulas between dollar signs. Notebooks show it typeset.

    Examples
    --------
    >>> proof("objective").name
    'objective'
    """

    name: str
    text: str

    @property
    def title(self) -> str:
        """The first line."""
        return self.text.partition("\n")[0].lstrip("# ").strip()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Proof: {self.title}>"

    def _repr_markdown_(self) -> str:
        return self.text


def proof(of: str | HasProof) -> Proof:
    """The page that proves a guarantee, in this version of dpstats.

    Parameters
    ----------
    of : str or Guarantee
        The name of a page, as cited in summaries and notes, or a guarantee such as ``fit.guarantee``.

    Returns
    -------
    Proof
        ``print`` shows its text; notebooks typeset it.

    Raises
    ------
    ArgumentError
        If there is no such page.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.proof("composition")
    <Proof: Composition>
    """
    basis = of if isinstance(of, str) else getattr(of, "basis", None)
    if not isinstance(basis, str):
        raise ArgumentError(f"of must be the name of a proof or a guarantee, got {safe_repr(of)}")
    name = basis.partition(",")[0].removeprefix(_PREFIX)
    pages = {path.stem: path for path in _PAGES.glob("*.md")}
    if name not in pages:
        near = difflib.get_close_matches(name, pages, n=1)
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(pages))}"
        raise ArgumentError(f"of: there is no proof called {safe_repr(name)}; {known}")
    return Proof(name, pages[name].read_text(encoding="utf-8"))


def cite_proof(basis: str) -> str:
    """How printed notes cite a page: "docs/proofs/risk, theorem 6" is 'dp.proof("risk"), theorem 6'."""
    name, comma, place = basis.partition(",")
    return f'dp.proof("{name.removeprefix(_PREFIX)}"){comma}{place}' if name.startswith(_PREFIX) else basis
