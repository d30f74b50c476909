"""All randomness of active learning as a function of one seed and of N.

N, the number of labelled rows, identifies the round. A round that is run alone, or
again after a kill, thus gets the same random numbers as within a longer run.
"""

import keras
import numpy as np

from bhn_tf import keras_adapter

# One stream of random numbers for each use.
_USES = ("train", "candidates", "ties", "random", "draws", "evaluate")


def generator(seed: int, use: str, num_labelled: int) -> np.random.Generator:
    """The random numbers of one use at N labelled rows."""
    return np.random.default_rng([seed, _USES.index(use), num_labelled])


def integer(seed: int, use: str, num_labelled: int) -> int:
    """A seed for one use at N labelled rows."""
    return int(generator(seed, use, num_labelled).integers(2**31))


def seed_training(seed: int, num_labelled: int) -> int:
    """Seeds Keras, NumPy and Python for the training on N rows; returns the seed."""
    value = integer(seed, "train", num_labelled)
    keras.utils.set_random_seed(value)
    return value


def seed_layers(model, value: int) -> None:
    """Seeds the generators inside a model, such as those of dropout layers.

    A round's noise then depends only on the seed and N, not on how many rounds the
    model has seen, here or in another process.
    """
    for index, state in enumerate(keras_adapter.seed_variables(model)):
        words = np.random.SeedSequence([value, index]).generate_state(state.shape[0])
        state.assign(words.astype("uint32"))
