"""The command line: ``python -m dpstats template|check|plan|fit|evaluate|show|ledger|office|serve|demo``.

Exit status: 0, done; 1, an argument, the formula, the Domain, the data or the output cannot be used, and nothing was
spent; 2, the command was not understood; 3, budget or quota do not suffice, and nothing was spent; 4, the ledger cannot
be used, and nothing was released; 5, the request cannot be certified; 6, the release failed after its charge, which
stays, a count of rows that was charged stopped the fit, or a release was made and could not be printed or written where
it was to go, and the error says where it is.
"""

from dpstats.cli.main import main

__all__ = ["main"]
