"""The version of the package, said once: setup.cfg reads it here without importing anything else."""

__version__ = "0.1.0"
