"""Export to a SavedModel that answers with its uncertainty."""

import keras
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.data_feeds.checks import batch_spec
from bhn_tf.serving import assets
from bhn_tf.serving.names import input_specs
from bhn_tf.serving.signatures import Signatures, check_signatures
from bhn_tf.serving.versions import new_version


class Serving:
    """Mixin of `PredictiveModel`: SavedModels for TensorFlow Serving.

    Args:
        fed_dtypes: Dtypes of the data that the model was trained on, which a saved
            model keeps; a served model takes what its trainer was fed.
    """

    def __init__(self, fed_dtypes=None, **kwargs):
        super().__init__(**kwargs)
        self._fed_dtypes = fed_dtypes

    def fit(self, x=None, *args, **kwargs):
        self._remember_dtypes(x)
        return super().fit(x, *args, **kwargs)

    def train_on_batch(self, x, *args, **kwargs):
        self._remember_dtypes(x)
        return super().train_on_batch(x, *args, **kwargs)

    def _remember_dtypes(self, x):
        spec = batch_spec(x)
        if spec is not None:
            self._fed_dtypes = keras.tree.map_structure(
                lambda leaf: tf.as_dtype(leaf.dtype).name, spec[0]
            )

    def get_config(self):
        config = super().get_config()
        if self._fed_dtypes is not None:
            # A copy: Keras turns what a model holds into containers of its own.
            config["fed_dtypes"] = keras.tree.map_structure(str, self._fed_dtypes)
        return config

    def export(
        self,
        directory,
        num_samples: int = 32,
        signatures=None,
        ensemble: bool = False,
        *,
        seed: int | None = None,
        metrics: dict | None = None,
    ) -> str:
        """Writes the next version of a SavedModel.

        It replaces Keras's `export(filepath)`, which would freeze one draw: the graph
        draws anew for each request. Only TensorFlow is needed to load it.

        - `serving_default(inputs)` → `mean` and every score of the likelihood, from
          `num_samples` draws;
        - `sample(inputs, num_samples, seed)`, two int32 scalars → `samples`
          [rows, S, C], the same for the same seed;
        - `deterministic(inputs)` → `mean` at the centre, without noise.

        Several inputs are arguments by their names, and results of several outputs
        are `<output>_mean`, `<output>_mutual_information`, ...; what was not named by
        you is `input_0`, `output_0`, .... Inputs have the dtype that the model was
        trained on: uint8 images and integer tokens stay what they are.

        Beside the graph, `assets.extra/` holds `model_card.json` and, where the
        package `tensorflow-serving-api` is installed, requests that warm a server up.

        Args:
            directory: Folder of versions; the model goes into the next free integer
                under it, and is not visible there before it is whole.
            num_samples: S of `serving_default`.
            signatures: Names of the signatures to be written; `None` for all three.
                For a server that batches requests leave out `sample`, whose two
                scalars have no axis of rows to be joined on:
                `signatures=("serving_default", "deterministic")`.
            ensemble: Whether the S draws are made now and frozen: the same input then
                has the same answer always, and no hypernet is in the graph, which is
                smaller and faster. `sample(inputs)` then returns the frozen draws.
            seed: A non-negative integer for the same frozen draws every time.
            metrics: What the model card tells of the model's quality, numbers by name.

        Returns:
            The path of the new version.

        Raises:
            ValueError: If the model has no weights yet, or a signature is unknown.

        Example:
        ```python
        path = model.export("saved_models/digits")
        served = tf.saved_model.load(path).signatures["serving_default"]
        served(inputs=tf.constant(x))["mutual_information"]
        ```
        """
        check_count("num_samples", num_samples, minimum=1)
        asked = check_signatures(signatures)
        if seed is not None and not ensemble:
            raise ValueError(
                "`seed` is that of frozen draws: give it with `ensemble=True`. "
                "Without, every request draws anew, and `sample` takes a seed."
            )
        if not self.built:
            raise ValueError(
                "The model has no weights to export: call `build(input_shape)` or "
                "`fit` first."
            )
        frozen = None
        if ensemble:
            frozen = self._draw(num_samples, seed)[0], self._draw(0, None)[0]
        specs, structure = self._served_inputs()
        made = Signatures(self, specs, structure, num_samples, frozen).make(asked)
        module = tf.Module()
        module.served = _variables_of(made.values())
        module.frozen = frozen
        module.tables = [
            layer.lookup_table
            for network in self._networks()
            for layer in network._flatten_layers()
            if hasattr(layer, "lookup_table")
        ]
        facts = {"num_samples": num_samples, "ensemble": ensemble, "metrics": metrics}
        facts["input_names"] = specs.originals
        with new_version(directory) as version:
            tf.saved_model.save(module, str(version.path), made)
            assets.write_model_card(version.path, self, made, facts)
            assets.write_warm_up(version.path, made)
        return str(version.path)

    def _served_inputs(self):
        network = self._networks()[0]
        shapes = self._input_shape
        if shapes is None:
            # A subclassed network that was built before it came here.
            shapes = (network.get_build_config() or {}).get("input_shape")
        return input_specs(network, shapes, self._fed_dtypes)


def _variables_of(functions) -> list:
    """The variables that functions read, each once."""
    found = {
        variable.ref(): variable
        for function in functions
        for variable in function.variables
    }
    return list(found.values())
