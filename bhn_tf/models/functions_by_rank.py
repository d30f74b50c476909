"""The compiled functions of steps, one for each number of axes of the data."""

import keras

from bhn_tf.models.adapted_layers import AdaptedLayers


class FunctionsByRank:
    """Keeps a model's compiled functions apart by the ranks of the data.

    TensorFlow would relax a trace for several to labels of unknown rank, in which class
    numbers cannot be told from one-hot rows.
    """

    def __init__(self):
        self._ranks: dict[str, str] = {}
        self._functions: dict[tuple[str, str], object] = {}
        self._adapted_layers = AdaptedLayers()

    def take(self, model: keras.Model, name: str, ranks: str) -> None:
        """Gives the model its compiled function for data of these ranks.

        If there is none yet, Keras compiles one.

        Args:
            model: The model.
            name: "train_function" or "test_function".
            ranks: From `ranks_of`.
        """
        if self._adapted_layers.have_changed(model.posterior.networks, name):
            self._functions = {k: f for k, f in self._functions.items() if k[0] != name}
            setattr(model, name, None)
        before = self._ranks.get(name, ranks)
        self._ranks[name] = ranks
        if ranks != before:
            self._functions[name, before] = getattr(model, name)
            setattr(model, name, self._functions.get((name, ranks)))


def ranks_of(feed) -> str:
    """Returns the numbers of axes of inputs, labels and weights, as part of a key.

    Whether the last one is of size 1 tells a column of class numbers from one-hot rows.
    """
    specs = keras.tree.flatten(feed.spec())
    shapes = [spec.shape for spec in specs if spec is not None]
    return str([(len(shape), shape[1:][-1:] == (1,)) for shape in shapes])
