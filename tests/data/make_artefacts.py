"""Made the files of `artefacts_2e4dd80` with dpstats 2e4dd80: ``python tests/data/make_artefacts.py FOLDER``.

They are what users have on their disks and must load for ever; they are not made anew. Nothing is seeded, so that what
they hold is certified, as users' files are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from corpus_calls import COUNT, DATA, DOMAIN, LOGIT, MODEL, WRONG_DOMAIN

import dpstats as dp
from dpstats import streaming

FITS: dict[str, dict[str, Any]] = {
    "gaussian": {"formula": MODEL, "inference": True},
    "robust": {"formula": MODEL, "inference": "robust", "adjacency": "replace_one", "delta": 1e-6},
    "binomial": {"formula": LOGIT, "family": "binomial"},
    "label": {"formula": "lab ~ x + z", "family": "binomial", "inference": None},
    "counts": {"formula": COUNT, "family": "poisson", "exposure": "t"},
    "negative": {"formula": COUNT, "family": "negative_binomial", "offset": "z"},
    "trials": {"formula": "hits + misses ~ x", "family": "binomial"},
    "svm": {"formula": "lab ~ x", "family": "huber_svm", "inference": True},
    "smooth": {"formula": LOGIT, "family": "smooth_svm", "method": "output"},
    "output": {"formula": MODEL, "method": "output", "delta": 1e-6, "penalty": "lasso", "alpha": 10.0},
    "posterior": {"formula": "b ~ x", "family": "binomial", "method": "posterior", "delta": 1e-6},
    "statistics": {"formula": MODEL, "method": "statistics"},
    "bought": {"formula": "y ~ x + z", "domain": {"y": (-6, 10)}, "response": "bought", "inference": True},
    "screened": {"formula": MODEL, "screen": 1, "split": "rows", "inference": True},
    "lasso": {"formula": MODEL, "penalty": "lasso", "alpha": 20.0, "refit_share": 0.4, "selection": "noise_aware"},
    "scad": {"formula": MODEL, "penalty": "scad", "alpha": 20.0, "stages": 2},
    "person": {"formula": MODEL, "unit": "person", "max_rows": 3, "inference": True, "weights": "w"},
    "terms": {"formula": "y ~ bs(x, df=4) + C(g, Sum) + rff(x, z, gamma=1.0, D=4) + poly(z, 2) + cut(x, [0, 5, 10])"},
    "seeded": {"formula": MODEL, "seed": 1},
    "replica": {"formula": MODEL, "moor": "paper", "penalty": "lasso", "alpha": 20.0, "allow_uncertified": True},
}


def main(folder: Path) -> None:
    """Make all of them."""
    folder.mkdir(parents=True)
    fits = {}
    for name, arguments in FITS.items():
        fits[name] = dp.glm(data=DATA, **{"eps": 6.0, "domain": DOMAIN, **arguments})
        fits[name].save(folder / f"fit_{name}.json")
    for name in ("gaussian", "binomial", "counts"):
        dp.evaluate(fits[name], DATA, 3.0).save(folder / f"evaluation_{name}.json")
    dp.check(MODEL, DATA, WRONG_DOMAIN, 1.0).save(folder / "check_wrong.json")
    dp.select({"five": "x > 5", "s": "s == 'm'"}, "candidate != (b == 1)", DATA, domain=DOMAIN, eps=0.5).save(
        folder / "selection_rules.json"
    )
    sums = dp.release_statistics(DOMAIN, ["y", "x", "z", "g"], 6.0, data=DATA, delta=1e-6)
    sums.save(folder / "statistics_sums.json")
    sums.fit("y ~ x + g").save(folder / "statistics_fit.json")
    (folder / "plan.json").write_text(json.dumps(fits["screened"].plan.to_dict()))
    (folder / "domain.json").write_text(dp.Domain(DOMAIN).to_json())

    with dp.Ledger(folder / "ledger_rows.ledger", dataset="made up", eps=20.0, delta=1e-3, domain=DOMAIN) as ledger:
        ledger.set_quota("Ada", eps=5.0)
        ledger.set_quota(None, eps=12.0, delta=1e-4)
        ada = ledger.signed("Ada", purpose="a chapter")
        dp.glm(MODEL, DATA, 1.0, domain=DOMAIN, ledger=ada)
        dp.check(MODEL, DATA, DOMAIN, 0.25, ledger=ledger)
        parts = ledger.partition("g", ["a", "b", "c"])
        dp.glm("y ~ x", DATA, 2.0, domain=DOMAIN, ledger=parts["a"])
        split = dp.holdout(DATA, 0.3, ledger=ledger)
        dp.glm("y ~ x", DATA, 1.0, domain=DOMAIN, ledger=split.train_ledger)
    with dp.Ledger(
        folder / "ledger_persons.ledger", "persons", 9.0, unit="person", accountant="zcdp", delta=1e-6
    ) as ledger:
        dp.glm(MODEL, DATA, 1.0, domain=DOMAIN, ledger=ledger, unit="person")
    for noise in ("tree", "blt"):
        with dp.Ledger(folder / f"{noise}.ledger", dataset="stream", eps=20.0, delta=1e-3) as ledger:
            given = {"sums": noise, "state": folder / f"{noise}.state", "ledger": ledger}
            made = streaming.Regression(MODEL, DOMAIN, 10.0, 1e-6, horizon=8, **given)
            made.update(DATA.iloc[:300], label="first")
            made.update(DATA.iloc[300:600], label="second").save(folder / "stream_result.json")
    binary = streaming.Regression(LOGIT, DOMAIN, 20.0, 1e-6, horizon=4, family="binomial")
    binary.update(DATA)
    binary.update(DATA).save(folder / "stream_result_logit.json")

    domain = {"x": (0, 10), "s": ["f", "m"], "y": (-6, 10), "b": (0, 1)}
    specs: dict[str, dict[str, Any]] = {
        "local": {"formula": "y ~ x + s", "eps": 3.0},
        "logit": {"formula": "b ~ x + s", "eps": 20.0, "family": "binomial"},
        "features": {"formula": "y ~ x", "local_eps": 9.0, "scheme": "features"},
    }
    for name, given in specs.items():
        (folder / name).mkdir()
        spec = dp.local.Spec(domain, delta=1e-6, n=60, **given)
        (folder / name / "spec.json").write_text(spec.to_json())
        reports = [dp.local.randomize(row, spec) for row in DATA[["x", "s", "y", "b"]].head(60).to_dict("records")]
        dp.local.write(reports, folder / name / "reports.jsonl")
        dp.local.write(reports, folder / name / "reports.parquet")
        dp.local.fit(reports, spec).save(folder / name / "fit.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
