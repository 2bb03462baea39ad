"""Figures of the house: how large the package is, how far a fit has to walk, and what ties its files in circles.

``python -m benchmarks.house`` prints them; ``tests/test_layers.py`` holds the circles at none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp

PACKAGE = Path(dp.__file__).resolve().parent
KINDS = "Objective|LeastSquares|Output|Posterior|Screening|Stream|Refits|Tuning"
PLAN_KINDS = re.compile(rf"isinstance\([^()]*\b(?:{KINDS})Plan\b")
"""A question which mechanism a plan is of."""

TITLES = "Parameters|Returns|Yields|Raises|Attributes|Notes|Examples|See Also|References|Warns"
SECTION = re.compile(rf"^\s*(?:{TITLES})\n\s*-+$", re.M)


def sources() -> dict[str, str]:
    """The text of every file of the package, by its path below it."""
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def public_objects() -> set[tuple[str, str]]:
    """Objects that users see, as (file, qualified name): public names of `dpstats` and of its public folders."""
    rooms: list[Any] = [dp, dp.families, dp.penalties, dp.privacy, dp.local, dp.streaming, dp.plots, dp.datasets]
    rooms.append(dp.errors)
    seen = set()
    for room in rooms:
        for name in getattr(room, "__all__", [n for n in vars(room) if not n.startswith("_")]):
            thing = getattr(room, name)
            for one in (thing, *getattr(thing, "__mro__", ())):
                module = sys.modules.get(getattr(one, "__module__", ""), None)
                if module is not None and str(getattr(module, "__file__", "")).startswith(str(PACKAGE)):
                    seen.add((str(Path(str(module.__file__)).relative_to(PACKAGE)), getattr(one, "__name__", name)))
    return seen


def section_lines() -> tuple[int, int]:
    """Lines of docstrings from their first section on: of public objects, and of internal ones."""
    public, counts = public_objects(), [0, 0]
    for file, text in sources().items():
        for node, owner in definitions(ast.parse(text)):
            doc = ast.get_docstring(node, clean=False) or ""
            found = SECTION.search(doc)
            if found:
                hidden = node.name.startswith("_") and not node.name.startswith("__")
                counts[(file, owner) not in public or hidden] += doc[found.start() :].count("\n")
    return counts[0], counts[1]


def definitions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, str]]:
    """Functions, classes and methods, each with the top-level name that it belongs to."""
    for node in tree.body:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.ClassDef):
                yield inner, getattr(node, "name", "")


def walk(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Distinct functions and files of the package that a call enters, and how deep it goes."""
    functions, deepest = set(), 0

    def tracer(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_firstlineno))
            depth, above = 0, frame
            while above is not None:
                depth += above.f_code.co_filename.startswith(str(PACKAGE))
                above = above.f_back
            deepest = max(deepest, depth)

    sys.setprofile(tracer)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(functions), len({file for file, _ in functions}), deepest


def default_fit() -> tuple[int, int, int]:
    """What `dpstats.glm` enters for a formula of two numbers and a factor, all declared: the median of some fits.

    So few rows have errors by chance, of which the noise in their number decides, and a fit with errors enters more.
    """
    random = np.random.default_rng(1)
    data = pd.DataFrame(random.normal(size=(500, 2)), columns=["x1", "x2"])
    data["g"] = random.choice(list("abc"), 500)
    data["y"] = data.x1 + random.normal(size=500)
    domain = {"x1": (-4, 4), "x2": (-4, 4), "g": list("abc"), "y": (-8, 8)}
    return sorted(walk(lambda: dp.glm("y ~ x1 + x2 + g", data, 1.0, domain=domain)) for _ in range(9))[4]


def module_name(file: str) -> str:
    """``dpstats.privacy.noise`` for its file, ``dpstats.privacy`` for the folder's ``__init__.py``."""
    return f"dpstats.{file}".removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def circles() -> list[list[str]]:
    """Files that import each other in a loop, imports for type checkers included; one loop of each knot."""
    names = {module_name(file): text for file, text in sources().items()}
    graph: dict[str, set[str]] = {}
    for module, text in names.items():
        graph[module] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted = (f"{node.module}.{alias.name}" for alias in node.names)
                graph[module] |= {name if name in names else node.module for name in wanted}
        known = graph[module] & set(names) - {module}
        graph[module] = {name for name in known if not module.startswith(f"{name}.")}
    found = []
    while True:
        try:
            list(TopologicalSorter(graph).static_order())
            return found
        except CycleError as error:
            loop = error.args[1]
            found.append(loop)
            graph[loop[1]].discard(loop[0])


def main() -> None:
    """Print the figures."""
    texts = sources()
    functions, files, depth = default_fit()
    public, internal = section_lines()
    asked = sum(len(PLAN_KINDS.findall(text)) for file, text in texts.items() if not file.startswith("mechanisms/"))
    print(f"lines of the package: {sum(text.count(chr(10)) for text in texts.values()):,} in {len(texts)} files")
    print(f"a default fit enters {functions} functions in {files} files, {depth} deep")
    print(f"import circles, typing included: {len(circles())}")
    print(f"lines of docstring sections: {public:,} of public objects, {internal:,} of internal ones")
    print(f"isinstance on kinds of plans outside mechanisms: {asked}")


if __name__ == "__main__":
    main()
