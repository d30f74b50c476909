"""Notices that layers were adapted, or loaded, since a function was compiled.

Means, vocabularies and boundaries of preprocessing layers are no variables, but
constants of a compiled function: after `adapt`, `set_vocabulary` or `load_weights`, it
would go on with those of before.
"""

from bhn_tf import keras_adapter


class AdaptedLayers:
    """What the preprocessing layers of networks held when functions were compiled."""

    def __init__(self):
        self._seen: dict[str, list] = {}

    def have_changed(self, networks, functions: str) -> bool:
        """Returns whether they hold something else than when this was last asked.

        Args:
            networks: The networks of a model.
            functions: Which functions are asked for, each with a memory of its own.
        """
        now = [
            learned
            for network in networks
            for learned in keras_adapter.learned_beside_variables(network)
        ]
        before = self._seen.get(functions, now)
        self._seen[functions] = now
        return [*map(id, now)] != [*map(id, before)]
