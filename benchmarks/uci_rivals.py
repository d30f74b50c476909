r"""NGBoost on the sets and splits that `trainers.uci` goes through.

It lives in an environment of its own, as lifelines does, without TensorFlow or this
library:

    python3 -m venv /tmp/ngboost
    /tmp/ngboost/bin/pip install ngboost
    /tmp/ngboost/bin/python -m benchmarks.uci_rivals --data_dir=... \
        --sets=yacht,boston --splits=3

The training rows of a split are parted as in `trainers.uci`: trees are fitted to 80 %,
the likelihood of the other 20 % chooses their number, and as many are fitted to all
training rows. Rows of the file are kept, so that a run with other sets adds to it.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

_MOST_TREES = 2_000
_SHARE_OF_VALIDATION = 0.2


def main() -> None:
    """Fits the splits that the file lacks, and writes it after each."""
    parser = argparse.ArgumentParser(description="NGBoost on the sets of UCI.")
    parser.add_argument("--sets", default="boston,concrete,energy,wine,yacht")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--data_dir", required=True, help="as of trainers.uci")
    parser.add_argument("--output", default="docs/results/uci_ngboost.json")
    flags = parser.parse_args()
    sets = flags.sets.split(",")
    for name in sets:
        path = Path(flags.data_dir) / name / "data/data.txt"
        if not path.is_file():
            parser.error(f"--data_dir={flags.data_dir} --sets={name}: no {path}.")
    output = Path(flags.output)
    output.parent.mkdir(parents=True, exist_ok=True)

    import ngboost

    rows = json.loads(output.read_text())["rows"] if output.exists() else []
    known = {(row["set"], row["split"]) for row in rows}
    for name in sets:
        for split in range(flags.splits):
            if (name, split) in known:
                continue
            row = _measured(Path(flags.data_dir) / name / "data", split)
            rows.append({"set": name, "method": "ngboost", "split": split, **row})
            rows.sort(key=lambda row: (row["set"], row["split"]))
            found = {"ngboost": ngboost.__version__, "rows": rows}
            # Whole or not at all: the file holds the work of hours.
            temporary = output.with_name(f".{output.name}")
            temporary.write_text(json.dumps(found, indent=1) + "\n")
            temporary.replace(output)
            print(f"{name}, split {split}: NLL {row['nll']:.3f}", flush=True)


def _measured(folder: Path, split: int) -> dict:
    import scipy.stats
    from ngboost import NGBRegressor

    started = time.monotonic()
    data = np.loadtxt(folder / "data.txt")
    features, target, train, test = (
        np.loadtxt(folder / f"index_{name}.txt", ndmin=1).astype("int64")
        for name in ("features", "target", f"train_{split}", f"test_{split}")
    )
    x, y = data[:, features], data[:, target].ravel()
    order = train[np.random.default_rng(split).permutation(len(train))]
    validation, fitting = np.split(order, [round(_SHARE_OF_VALIDATION * len(order))])
    searched = NGBRegressor(
        n_estimators=_MOST_TREES, random_state=split, verbose=False
    ).fit(
        x[fitting], y[fitting], x[validation], y[validation], early_stopping_rounds=50
    )
    # The number of the best tree, from 0 on, is missing where none was.
    best = searched.best_val_loss_itr
    num_trees = _MOST_TREES if best is None else int(best) + 1
    fitted = NGBRegressor(n_estimators=num_trees, random_state=split, verbose=False)
    noise = fitted.fit(x[train], y[train]).pred_dist(x[test])
    mean, std = noise.params["loc"], noise.params["scale"]
    half = scipy.stats.norm.ppf(0.95) * std
    error = y[test] - mean
    z, normal = error / std, scipy.stats.norm
    crps = std * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nll": float(-normal.logpdf(y[test], mean, std).mean()),
        "coverage": float(np.mean(np.abs(error) <= half)),
        "width": float(np.mean(2 * half)),
        "crps": float(crps.mean()),
        "trees": num_trees,
        "num_test": len(test),
        "seconds": time.monotonic() - started,
    }


if __name__ == "__main__":
    main()
