"""Example data sets, each with its public facts, citation and licence."""

from dpstats.datasets.loaders import Dataset, load_adult, load_fair, load_randhie, load_wages

__all__ = ["Dataset", "load_adult", "load_fair", "load_randhie", "load_wages"]


def __dir__() -> list[str]:
    return list(__all__)
