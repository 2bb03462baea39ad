"""Run the Python blocks of a Markdown page and set their output below them.

A page is a notebook in plain text: its ``python`` blocks run in order in one namespace. The documentation shows what
each printed, the value of its last line, and its figures; an error or a warning of Python ends the build, which is the
test of the pages. A ``text`` block right after a ``python`` block is its output from an earlier run and is replaced:
``python docs/executed.py README.md`` brings the README up to date.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BLOCK = re.compile(r"^(?P<block>```python\n(?P<code>.*?)^```)$(?:\n\n```text\n.*?^```$)?", re.MULTILINE | re.DOTALL)

CHUNKS = 16
WIDTH = 84
"""Characters of output that a page shows without a bar to scroll."""

TO_VIGNETTE = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<folder>(?:\.\./)*vignettes/)?(?P<page>\w+)\.md\)")


def run_page(text: str, name: str, figures: Path | None = None) -> str:
    """Execute a page.

    Parameters
    ----------
    text : str
        Markdown; only blocks fenced as ``python`` run.
    name : str
        For tracebacks and figure files.
    figures : Path, optional
        A folder below the documentation's source for the figures; without one they are drawn and dropped.

    Returns
    -------
    str
        The page with fresh outputs.
    """
    namespace: dict[str, Any] = {"__name__": f"page {name}"}

    def with_output(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shown = run_block(match["code"], f"{name}, line {line}", namespace)
        parts = [match["block"]]
        if shown:
            parts.append(f"```text\n{shown if figures is None else folded(shown)}\n```")
        parts += [f"![]({path})" for path in _save_figures(name, line, figures)]
        return "\n\n".join(parts)

    return BLOCK.sub(with_output, text)


def run_block(code: str, place: str, namespace: dict[str, Any]) -> str:
    """What the code prints, and the value of its last line if that is an expression."""
    tree = ast.parse(code, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, place, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), namespace)
            if value is not None:
                print(value)
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())


def folded(shown: str) -> str:
    """Sentences that are wider than a page go on in further lines; tables, which have columns, stay as they are."""
    lines = [
        textwrap.fill(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        if len(line) > WIDTH and "  " not in line
        else line
        for line in shown.splitlines()
    ]
    return "\n".join(lines)


def _save_figures(name: str, line: int, folder: Path | None) -> list[str]:
    """Save and close matplotlib's open figures; their paths from the root of the documentation."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    paths = []
    for number in pyplot.get_fignums():
        if folder is not None:
            path = folder / f"{name.replace('/', '-')}-{line}-{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pyplot.figure(number).savefig(path, dpi=120, bbox_inches="tight")
            paths.append(f"/{folder.parent.name}/{folder.name}/{path.name}")
        pyplot.close(number)
    return paths


def linked(text: str, name: str) -> str:
    """The page with links to vignettes as Sphinx finds them: it would resolve their folder, a symbolic link."""

    def role(match: re.Match[str]) -> str:
        inside = name.startswith("vignettes/") and not match["folder"]
        return f"{{doc}}`{match['words']} </vignettes/{match['page']}>`" if inside or match["folder"] else match[0]

    return TO_VIGNETTE.sub(role, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Run every page that has Python blocks before Sphinx parses it, in as many processes as it reads pages with."""

    def spread(app: Sphinx, environment: object, names: list[str]) -> None:
        """Processes take neighbours together: pages that run long, of guides and vignettes, are set apart."""
        names.sort()
        names[:] = [name for start in range(CHUNKS) for name in names[start::CHUNKS]]

    def on_read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = linked(source[0], name)
        if BLOCK.search(source[0]):
            source[0] = run_page(source[0], name, Path(app.srcdir) / "_build" / "figures")

    app.connect("env-before-read-docs", spread)
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        page = Path(argument)
        page.write_text(run_page(page.read_text(), page.name))
