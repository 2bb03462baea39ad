"""Neighbouring data with hostile cells, through every public call that takes rows: what may not differ, compared.

`cells` holds the cells, `python_columns`, `pandas_columns`, `arrow_columns` and `polars_columns` the types of column
that may hold them, `tables` the containers of columns, `calls` the public calls, `observed` what leaves a call, and
`groups` the neighbours and their comparison. ``python -m benchmarks.audits.edges`` runs them.
"""
