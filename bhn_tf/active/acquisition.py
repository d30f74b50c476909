"""Acquisition: scores every candidate and chooses the highest scores.

The acquisitions of Gal, Islam and Ghahramani, "Deep Bayesian active learning with image
data", ICML 2017, and every other score of the library.
"""

from collections.abc import Callable

import keras
import numpy as np

from bhn_tf.active.pool import Pool
from bhn_tf.data_feeds import which_are_finite
from bhn_tf.uncertainty import SCORES

#: Names of scores in active learning that differ from those in `bhn_tf.uncertainty`.
ALIASES = {"bald": "mutual_information", "max_entropy": "predictive_entropy"}
#: Standard deviations of a regression, averaged over its outputs.
REGRESSION_SCORES = ("epistemic_std", "std", "aleatoric_std")
RANDOM = "random"

# Rows scored in one call of the model; the pool may be much larger.
_CHUNK_ROWS = 10_000

Acquisition = str | Callable[[np.ndarray], np.ndarray]


def check_acquisition(acquisition: Acquisition) -> None:
    """Raises `ValueError` unless it is a known name or a callable."""
    known = [*ALIASES, *SCORES, RANDOM, *REGRESSION_SCORES]
    if not callable(acquisition) and acquisition not in known:
        raise ValueError(
            f"Unknown acquisition {acquisition!r}. Expected one of {known}, or a "
            "function of probabilities [rows, S, C] that returns scores [rows], "
            "higher for rows whose label is wanted more."
        )


def score_rows(
    model,
    acquisition: Acquisition,
    pool: Pool,
    ids: np.ndarray,
    *,
    num_samples: int,
    batch_size: int | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores rows of the pool.

    Args:
        model: A model with the `predict*` calls of `BayesianHypernet`.
        acquisition: A name, not "random", or a callable on [rows, S, C].
        pool: Where the rows are.
        ids: Which rows.
        num_samples: S, the number of draws, the same for all rows.
        batch_size: Rows of a batch; `None` for Keras's default.
        seed: Seed of the draws.

    Returns:
        The ids in increasing order [rows], and their scores [rows] in float64: NaN
        for rows that are not finite.

    Raises:
        ValueError: If the model has no such score, or a callable returns other than
            one score a row.
    """
    arguments = dict(batch_size=batch_size, verbose=0)
    arguments |= dict(num_samples=num_samples, seed=seed)
    order, are_finite, found = [], [], []
    for chunk_ids, x in pool.chunks(ids, _CHUNK_ROWS):
        order.append(chunk_ids)
        are_finite.append(which_rows_are_finite(x))
        if callable(acquisition):
            found.append(model.predict_samples(x, **arguments))
        else:
            name = ALIASES.get(acquisition, acquisition)
            uncertainty = model.predict_uncertainty(x, **arguments)
            found.append(_named_score(uncertainty, name))
    scores = np.concatenate(found)
    if callable(acquisition):
        # All rows at once, since a user's function may compare them.
        scores = np.array(keras.ops.convert_to_numpy(acquisition(scores)))
    scores = scores.astype(np.float64)
    if scores.shape != (len(ids),):
        raise ValueError(
            f"The acquisition returned scores of shape {scores.shape} for {len(ids)} "
            f"rows. Expected one a row, [{len(ids)}]."
        )
    # A network may turn NaN into a number, as can the maximum with 0 in ReLU.
    scores[~np.concatenate(are_finite)] = np.nan
    return np.concatenate(order), scores


def which_rows_are_finite(x) -> np.ndarray:
    """Tells which rows have no NaN and no infinity, [rows].

    Args:
        x: An array, or a structure of them, rows first.
    """
    leaves = map(np.asarray, keras.tree.flatten(x))
    return np.all([which_are_finite(leaf) for leaf in leaves], axis=0)


def _named_score(uncertainty, name: str) -> np.ndarray:
    if not isinstance(uncertainty, dict) or name not in uncertainty:
        has = (
            sorted(uncertainty) if isinstance(uncertainty, dict) else "several outputs"
        )
        raise ValueError(
            f"The model's predictions have no score {name!r} but {has}. Choose one of "
            "these as acquisition; a regression has 'epistemic_std'."
        )
    elements = uncertainty[name].reshape(len(uncertainty[name]), -1)
    # The mean over a row's pixels, tokens or outputs, without padding.
    scores = np.full(len(elements), np.nan, elements.dtype)
    has_score = ~np.isnan(elements).all(axis=1)
    scores[has_score] = np.nanmean(elements[has_score], axis=1)
    return scores


def highest(
    ids: np.ndarray, scores: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns up to `count` ids of the highest scores, the highest first.

    Ties are broken at random. Rows whose score is NaN, and thus unknown, are not
    chosen.
    """
    known = ~np.isnan(scores)
    ids, scores = ids[known], scores[known]
    order = np.lexsort((rng.random(len(ids)), -scores))
    return ids[order[:count]]
