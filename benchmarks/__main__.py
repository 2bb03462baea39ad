"""Every benchmark against other libraries, tables to standard output: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks.prediction import adult, cps1988, randhie
from benchmarks.speed import fits

for module in (adult, cps1988, randhie, fits):
    module.main()
