"""The states of a network's seed generators in a file.

They are those of dropout and other noise. Keras does not save them, and resumed
training would differ without them.
"""

import keras
import numpy as np

from bhn_tf import keras_adapter

# The key of all states in a file.
_SEEDS = "seeds"


def save_seeds(networks, store) -> None:
    """Saves the states of all networks in a file of variables."""
    states = _seed_variables(networks)
    if states:
        store[_SEEDS] = np.stack(list(map(keras.ops.convert_to_numpy, states)))


def load_seeds(networks, store) -> None:
    """Loads what `save_seeds` has saved; files of earlier versions lack it."""
    if _SEEDS not in set(store.keys()):
        return
    variables, states = _seed_variables(networks), np.asarray(store[_SEEDS])
    if len(states) == len(variables):
        for variable, state in zip(variables, states, strict=True):
            variable.assign(state)


def without_seeds(store) -> dict:
    """Returns what else is in a file of variables, as Keras loads it."""
    return {name: store[name] for name in set(store.keys()) - {_SEEDS}}


def _seed_variables(networks) -> list:
    return [v for n in networks for v in keras_adapter.seed_variables(n)]
