"""A population like a census of incomes, made up: 14 facts of each person and the logarithm of an income."""

from __future__ import annotations

import numpy as np
import pandas as pd

BINARY = ("female", "married", "single", "working", "urban", "owner", "veteran", "disabled", "born_here")
"""Facts that are so or not."""

RANGES = {"age": (16, 90), "education": (0, 18), "hours": (0, 99), "weeks": (0, 52), "children": (0, 9)}
"""Of the numbers."""

RESPONSE = {"log_income": (6, 13)}

DOMAIN = {**RESPONSE, **RANGES, **{name: ["no", "yes"] for name in BINARY}}
"""Public facts, as a codebook would have them."""

COLUMNS = ("log_income", *RANGES, *BINARY)


def people(count: int, random: np.random.Generator) -> pd.DataFrame:
    """Independent persons; binary facts as "no" and "yes"."""
    age = np.clip(random.gamma(9, 5, count), 16, 90)
    female = random.random(count) < 0.49
    education = np.clip(random.normal(12.5 - 0.02 * (age - 45), 2.8), 0, 18)
    married = random.random(count) < 0.75 / (1 + np.exp(-(age - 30) / 10))
    single = ~married & (random.random(count) < 0.6)
    working = random.random(count) < np.where(age > 65, 0.2, 0.75)
    hours = np.where(working, np.clip(random.normal(40 - 4 * female, 11), 1, 99), 0)
    weeks = np.where(working, np.clip(52 - random.exponential(6, count), 1, 52), 0)
    urban, owner = random.random(count) < 0.7, random.random(count) < 0.4 + 0.35 * married
    children = np.minimum(random.poisson(0.9 * married + 0.2), 9)
    veteran = random.random(count) < 0.26 * (1 - female)
    disabled = random.random(count) < 0.05 + 0.002 * (age - 16)
    born_here = random.random(count) < 0.88
    mean = 9.4 + 0.09 * (education - 12.5) + 0.022 * np.minimum(age - 20, 35)
    mean += -0.00035 * np.maximum(age - 40, 0) ** 2 - 0.28 * female + 0.15 * married + 0.018 * (hours - 30)
    mean += 0.018 * (weeks - 35) + 0.12 * urban + 0.12 * owner - 0.25 * disabled + 0.06 * born_here - 0.03 * children
    wide = np.where(random.random(count) < 0.1, 1.8, 1.0)
    numbers = {
        "log_income": np.clip(mean + 0.65 * wide * random.normal(size=count), 6, 13),
        "age": age,
        "education": education,
        "hours": hours,
        "weeks": weeks,
        "children": children.astype(float),
    }
    facts = dict(
        zip(BINARY, (female, married, single, working, urban, owner, veteran, disabled, born_here), strict=True)
    )
    return pd.DataFrame({**numbers, **{name: np.where(fact, "yes", "no") for name, fact in facts.items()}})
