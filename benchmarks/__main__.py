"""Every benchmark against other libraries, tables to standard output: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks import adult, cps1988, randhie, speed

for module in (adult, cps1988, randhie, speed):
    module.main()
