"""The tables of `trainers.uci`, one for each set, with what papers report."""

from bhn_tf.tables import text_table
from trainers.uci_measures import CALIBRATED, MEASURES
from trainers.uci_methods import METHOD_NAMES
from trainers.uci_sets import PUBLISHED_NLL, SETS

_HEAD = [
    "",
    "splits",
    "RMSE",
    "NLL",
    "coverage",
    "width",
    "CRPS",
    "calibrated: coverage",
    "width",
    "absolute: coverage",
    "width",
]


def tables(summary: dict, rivals: dict | None = None) -> str:
    """Returns the tables as text.

    Args:
        summary: What `uci_measures.summary` returned.
        rivals: The same for methods that ran elsewhere, by the names that tables show;
            only `MEASURES` are read.
    """
    rivals = rivals or {}
    return "\n\n".join(
        _table(name, methods, rivals.get(name, {})) for name, methods in summary.items()
    )


def promises(held: dict) -> str:
    """Returns a table of how calibrated intervals keep their promise, over all sets.

    Args:
        held: What `uci_measures.held` returned.
    """
    rows = [
        [
            "all sets",
            "sets",
            "calibrated: coverage",
            "splits where 99 % of calibrations are",
            "width, of absolute residuals'",
        ]
    ]
    for method, found in held.items():
        rows.append(
            [
                METHOD_NAMES[method],
                str(found["sets"]),
                f"{found['coverage']:.3f}",
                f"{found['inside']} of {found['splits']}",
                f"{found['relative_width']:.3f}",
            ]
        )
    return text_table(rows, numbers=range(1, 5))


def _table(name: str, methods: dict, rivals: dict) -> str:
    rows = [[name, *_HEAD[1:]]]
    for method, found in methods.items():
        cells = [_cell(*found[measure]) for measure in (*MEASURES, *CALIBRATED)]
        rows.append([METHOD_NAMES[method], str(found["splits"]), *cells])
    for method, found in rivals.items():
        cells = [_cell(*found[measure]) for measure in MEASURES]
        blank = [""] * len(CALIBRATED)
        rows.append([method, str(found["splits"]), *cells, *blank])
    for method, values in PUBLISHED_NLL.items():
        value = values[SETS.index(name)]
        cells = [""] * (len(_HEAD) - 1)
        cells[2] = "" if value is None else f"{value:.2f}"
        rows.append([f"published: {method}", *cells])
    return text_table(rows, numbers=range(1, len(_HEAD)))


def _cell(mean: float, error: float | None) -> str:
    # Errors of naval are about 1e-4.
    digits = 3 if abs(mean) >= 0.1 else 5
    if error is None:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
