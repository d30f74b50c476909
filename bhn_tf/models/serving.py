"""Export to a SavedModel that answers with its uncertainty."""

import os
import tempfile
from pathlib import Path

import tensorflow as tf

from bhn_tf.arguments import check_count


class Serving:
    """Mixin of `PredictiveModel`: SavedModels for TensorFlow Serving."""

    def export(self, directory, num_samples: int = 32) -> str:
        """Writes the next version of a SavedModel.

        It replaces Keras's `export(filepath)`, which would freeze one draw: the graph
        draws anew for each request. Only TensorFlow is needed to load it.

        - `serving_default(inputs)` → `mean` and every score of the likelihood, from
          `num_samples` draws;
        - `sample(inputs, num_samples, seed)`, two int32 scalars → `samples`
          [rows, S, C], the same for the same seed;
        - `deterministic(inputs)` → `mean` at the centre, without noise.

        Args:
            directory: Folder of versions; the model goes into the next free integer
                under it, and is not visible there before it is whole.
            num_samples: S of `serving_default`.

        Returns:
            The path of the new version.

        Raises:
            ValueError: If the model has no weights yet.

        Example:
        ```python
        path = model.export("saved_models/digits")
        served = tf.saved_model.load(path).signatures["serving_default"]
        served(inputs=tf.constant(x))["mutual_information"]
        ```
        """
        check_count("num_samples", num_samples, minimum=1)
        if not self.built:
            raise ValueError(
                "The model has no weights to export: call `build(input_shape)` or "
                "`fit` first."
            )
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # A server looks for integers only, so an unfinished version is invisible.
        temporary = tempfile.mkdtemp(prefix=".unfinished-", dir=directory)
        module = tf.Module()
        module.variables_of_model = [variable.value for variable in self.variables]
        tf.saved_model.save(module, temporary, self._signatures(num_samples))
        os.chmod(temporary, 0o755)
        return str(_publish(Path(temporary), directory))

    def _signatures(self, num_samples: int) -> dict:
        inputs = tf.TensorSpec(*self._serving_input(), name="inputs")

        @tf.function(input_signature=[inputs], autograph=False)
        def serving_default(inputs):
            draws, _ = self._draw(num_samples, _fresh_seed())
            return self.likelihood.summarize(self._raws(inputs, draws))

        @tf.function(
            input_signature=[
                inputs,
                tf.TensorSpec([], tf.int32, name="num_samples"),
                tf.TensorSpec([], tf.int32, name="seed"),
            ],
            autograph=False,
        )
        def sample(inputs, num_samples, seed):
            draws, _ = self._draw(num_samples, tf.stack([seed, 0]))
            return {"samples": self._samples(self._raws(inputs, draws))}

        @tf.function(input_signature=[inputs], autograph=False)
        def deterministic(inputs):
            draws, _ = self._draw(0, None)
            return {"mean": self.likelihood.mean(self._raws(inputs, draws)[0])}

        return {
            "serving_default": serving_default,
            "sample": sample,
            "deterministic": deterministic,
        }

    def _serving_input(self):
        shape = self._input_shape or self._networks()[0].input_shape
        if not all(size is None or isinstance(size, int) for size in shape):
            raise ValueError(
                "Export takes models of one input, and this one has inputs of shapes "
                f"{shape}."
            )
        if self.likelihood.output_names:
            raise ValueError(
                "Export takes models of one output, and this one has "
                f"{list(self.likelihood.output_names)}."
            )
        return [None, *shape[1:]], tf.float32


def _fresh_seed():
    """A seed that differs from request to request and from process to process.

    `tf.random.uniform` would bake the global seed into the graph and replay the same
    sequence after every start of the server.
    """
    return tf.raw_ops.RandomUniformInt(
        shape=[2], minval=0, maxval=tf.int32.max, seed=0, seed2=0
    )


def _publish(temporary: Path, directory: Path) -> Path:
    """Renames a finished export to the next free version."""
    while True:
        versions = [int(p.name) for p in directory.iterdir() if p.name.isdigit()]
        target = directory / str(max(versions, default=0) + 1)
        try:
            # Renaming onto a version that another process has just made fails.
            os.rename(temporary, target)
        except OSError:
            if not target.exists():
                raise
        else:
            return target
