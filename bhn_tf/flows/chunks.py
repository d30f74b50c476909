"""Steps of a flow over a long vector: one chunk drives all others.

The vector is cut into chunks. The first has the steps of any flow. All others take the
same step at once, with one conditioner that is given the first chunk and a learned
embedding of the chunk's number:

    q(x) = q(x_0) Π_k q(x_k | x_0)

Whatever its length, a vector then needs the weights of two conditioners per layer.
"""

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from bhn_tf.flows.conditioners import MADE, CouplingConditioner
from bhn_tf.flows.steps import ConditionedStep, FlowStep


class Leading(FlowStep):
    """A step of the first `size` entries; the others pass through."""

    def __init__(self, step: FlowStep, size: int, **kwargs):
        super().__init__(**kwargs)
        self.step = step
        self.size = size

    def build(self, input_shape):
        self.num_others = input_shape[-1] - self.size
        self.step.build((None, self.size))

    def call(self, inputs):
        outputs, log_det = self.step(inputs[..., : self.size])
        return tf.concat([outputs, inputs[..., self.size :]], axis=-1), log_det

    @property
    def bijector(self):
        return tfb.Blockwise(
            [self.step.bijector, tfb.Identity()], [self.size, self.num_others]
        )


class _Driven(ConditionedStep):
    """A step of all chunks but the first, which passes through and conditions them.

    Args:
        sizes: Sizes of the chunks, the first included.
        order: Order in which the entries of a chunk are taken; see `orders_within`.
        embedding_size: Size of the embedding of a chunk's number.
        **kwargs: Arguments of `ConditionedStep`.
    """

    def __init__(self, sizes, order, embedding_size: int, **kwargs):
        super().__init__(**kwargs)
        self.size = sizes[0]
        # Chunks are rows as wide as the largest. The missing entries of a shorter one
        # stay zero: they take no noise and add nothing to the density.
        sizes, width = np.asarray(sizes[1:]), len(order)
        starts = np.cumsum(sizes) - sizes
        column = np.asarray(order)
        self._is_entry = column < sizes[:, np.newaxis]
        places = np.where(self._is_entry, starts[:, np.newaxis] + column, 0)
        self._places = places.astype("int32")
        self._sources = np.empty(sizes.sum(), "int32")
        self._sources[places[self._is_entry]] = np.flatnonzero(self._is_entry)
        self.num_chunks, self.width = len(sizes), width
        self.embedding_size = embedding_size

    @property
    def num_given(self) -> int:
        """How many numbers the conditioner is given for each chunk."""
        return self.embedding_size + self.size

    def build(self, input_shape):
        # Starts at zero, so that a fresh flow has its centre at zero.
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.num_chunks, self.embedding_size),
            initializer="zeros",
        )
        # The embedding is an input of the conditioner and also gates its hidden units
        # (Perez et al., "FiLM", 2018): chunks that react to the first in opposite ways
        # then differ by a product, which sums alone hardly express.
        if self.hidden_units:
            self.gate = self.add_weight(
                name="gate",
                shape=(self.embedding_size, self.hidden_units[-1]),
                initializer=keras.initializers.RandomNormal(stddev=1.0),
            )
        self.conditioner = self._make_conditioner()
        self.conditioner.build((None, self._num_inputs))

    def _make_conditioner(self) -> keras.layers.Layer:
        raise NotImplementedError

    @property
    def _num_inputs(self) -> int:
        """Inputs of the conditioner."""
        raise NotImplementedError

    def _split(self, inputs):
        """The first chunk [..., size], and the others [..., chunks, width]."""
        others = tf.gather(inputs[..., self.size :], self._places, axis=-1)
        return inputs[..., : self.size], self._without_padding(others)

    def _join(self, first, chunks):
        flat = tf.reshape(
            chunks, tf.concat([tf.shape(first)[:-1], [self._places.size]], axis=0)
        )
        return tf.concat([first, tf.gather(flat, self._sources, axis=-1)], axis=-1)

    def _without_padding(self, chunks, start: int = 0):
        """Puts zeros where a chunk has no entry; its columns begin at `start`."""
        if self._is_entry.all():
            return chunks
        return tf.where(self._is_entry[:, start:], chunks, 0.0)

    def _given(self, first):
        """What the conditioner is given for each chunk, [..., chunks, given]."""
        shape = tf.concat([tf.shape(first)[:-1], [self.num_chunks, 1]], axis=0)
        embedding = tf.convert_to_tensor(self.embedding)
        return tf.concat(
            [
                tf.broadcast_to(
                    embedding,
                    tf.concat([shape[:-1], [self.embedding_size]], axis=0),
                ),
                tf.broadcast_to(
                    first[..., tf.newaxis, :],
                    tf.concat([shape[:-1], [self.size]], axis=0),
                ),
            ],
            axis=-1,
        )

    def _condition(self, given, seen, start: int = 0):
        """Shift and log-scale of the columns from `start` on."""
        gates = None
        if self.hidden_units:
            gates = 1.0 + tf.linalg.matmul(
                tf.convert_to_tensor(self.embedding), tf.convert_to_tensor(self.gate)
            )
        parts = self.conditioner(tf.concat([given, seen], axis=-1), gates)
        return [self._without_padding(part, start) for part in parts]

    def _bijector_of_chunks(self, given) -> tfb.Bijector:
        """The step as a bijector on chunks [..., chunks, width]."""
        raise NotImplementedError

    @property
    def bijector(self):
        def there(inputs):
            first, chunks = self._split(inputs)
            of_chunks = self._bijector_of_chunks(self._given(first))
            return self._join(first, of_chunks.forward(chunks))

        def back(outputs):
            first, chunks = self._split(outputs)
            of_chunks = self._bijector_of_chunks(self._given(first))
            return self._join(first, of_chunks.inverse(chunks))

        def log_det(inputs):
            first, chunks = self._split(inputs)
            of_chunks = self._bijector_of_chunks(self._given(first))
            each = of_chunks.forward_log_det_jacobian(chunks, event_ndims=1)
            return tf.reduce_sum(each, axis=-1)

        return tfb.Inline(
            forward_fn=there,
            inverse_fn=back,
            forward_log_det_jacobian_fn=log_det,
            forward_min_event_ndims=1,
        )


class DrivenCoupling(_Driven):
    """A coupling layer of all chunks but the first: half of each passes through."""

    @staticmethod
    def num_untransformed(event_size):
        return event_size // 2

    def _make_conditioner(self):
        self.num_masked = self.num_untransformed(self.width)
        return CouplingConditioner(
            self.width - self.num_masked,
            **self.conditioner_options,
            name="conditioner",
        )

    @property
    def _num_inputs(self):
        return self.num_given + self.num_masked

    def call(self, inputs):
        first, chunks = self._split(inputs)
        passed, transformed = (
            chunks[..., : self.num_masked],
            chunks[..., self.num_masked :],
        )
        shift, log_scale = self._condition(self._given(first), passed, self.num_masked)
        transformed = transformed * tf.exp(log_scale) + shift
        outputs = self._join(first, tf.concat([passed, transformed], axis=-1))
        return outputs, tf.reduce_sum(log_scale, axis=[-2, -1])

    def _bijector_of_chunks(self, given):
        return tfb.RealNVP(
            num_masked=self.num_masked,
            shift_and_log_scale_fn=lambda passed, _: self._condition(
                given, passed, self.num_masked
            ),
        )


class DrivenAutoregressive(_Driven):
    """An inverse autoregressive step of all chunks but the first."""

    @staticmethod
    def num_untransformed(event_size):
        # Given the first chunk, even the first entry is transformed.
        return 0

    def _make_conditioner(self):
        return MADE(
            **self.conditioner_options, num_given=self.num_given, name="conditioner"
        )

    @property
    def _num_inputs(self):
        return self.num_given + self.width

    def call(self, inputs):
        first, chunks = self._split(inputs)
        shift, log_scale = self._condition(self._given(first), chunks)
        outputs = self._join(first, (chunks - shift) * tf.exp(-log_scale))
        return outputs, -tf.reduce_sum(log_scale, axis=[-2, -1])

    def _bijector_of_chunks(self, given):
        return tfb.Invert(
            tfb.MaskedAutoregressiveFlow(lambda chunks: self._condition(given, chunks))
        )
