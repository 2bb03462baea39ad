"""Example data sets, each with its public facts, citation and licence."""

from dpstats.datasets.adult import load_adult
from dpstats.datasets.base import Dataset
from dpstats.datasets.wrapped import load_fair, load_randhie

__all__ = ["Dataset", "load_adult", "load_fair", "load_randhie"]
