"""``python -m dpstats``."""

from dpstats.cli import main

raise SystemExit(main())
