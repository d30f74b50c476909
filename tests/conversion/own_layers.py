"""Layers as users write them: with inner layers, weights and habits of their own."""

import keras
from keras import layers

register = keras.saving.register_keras_serializable("tests")


@register
class Block(layers.Layer):
    """Attributes, a list, a Sequential model, dropout, `training` and a mask."""

    def __init__(self, width=4, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.attention = layers.MultiHeadAttention(2, 3)
        self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]
        self.feed_forward = keras.Sequential(
            [layers.Dense(5, "relu", name="up"), layers.Dense(width, name="down")]
        )
        self.dropout = layers.Dropout(0.1)
        self.supports_masking = True

    def call(self, inputs, training=None):
        normalized = self.norms[0](inputs)
        attended = self.attention(normalized, normalized)
        inputs = inputs + self.dropout(attended, training=training)
        return inputs + self.feed_forward(self.norms[1](inputs))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@register
class MadeInBuild(layers.Layer):
    """As in keras-hub: layers made and built in `build`, and a weight of its own."""

    def build(self, input_shape):
        self._dense = layers.Dense(3, name="first")
        self._dense.build(input_shape)
        self.by_name = {"out": layers.Dense(4, name="second")}
        self.by_name["out"].build((*input_shape[:-1], 3))
        self.factor = self.add_weight(shape=(4,), name="factor")

    def call(self, inputs):
        return self.by_name["out"](self._dense(inputs)) * self.factor


@register
class Blocks(layers.Layer):
    """Users' own layers inside each other, and one layer under two names."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [Block(), MadeInBuild()]
        self.shared = layers.Dense(4, name="shared")
        self.alias = self.shared

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return self.alias(keras.ops.relu(self.shared(inputs)))


@register
class Closure(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = dense = layers.Dense(4, name="dense")
        self.function = lambda inputs: dense(inputs)

    def call(self, inputs):
        return self.function(inputs)


@register
class OnlyInTraining(Closure):
    def call(self, inputs, training=None):
        return self.function(inputs) if training else self.dense(inputs)


@register
class LateInTraining(layers.Layer):
    """Calls a layer in training alone, and another one never."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")
        self.late = layers.Dense(4, name="late")
        self.unused = layers.Dense(4, name="unused")

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, inputs, training=None):
        hidden = self.dense(inputs)
        return self.late(hidden) if training else hidden


@register
class Unused(LateInTraining):
    def call(self, inputs):
        return self.dense(inputs)


@register
class OneByOne(layers.Layer):
    """Calls the layers of a model and of a wrapper itself."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.steps = keras.Sequential(
            [layers.Input((5, 4)), layers.Dense(4, name="up"), layers.Dense(4)]
        )
        self.each = layers.TimeDistributed(layers.Dense(4, name="dense"), name="each")

    def call(self, inputs):
        for step in self.steps.layers:
            inputs = step(inputs)
        return self.each.layer(self.each(inputs))


@register
class CallsCell(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rnn = layers.SimpleRNN(4, return_sequences=True, name="rnn")

    def call(self, inputs):
        hidden = self.rnn(inputs)
        last, _ = self.rnn.cell(hidden[:, 0], [hidden[:, -1]])
        return hidden + last[:, None]


@register
class Tied(layers.Layer):
    """Reads the kernel of a layer that it also calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")

    def call(self, inputs):
        hidden = self.dense(inputs)
        return keras.ops.matmul(hidden, keras.ops.transpose(self.dense.kernel))


@register
class TiedInSecondCall(Tied):
    """As an embedding that is called in reverse at the end of a network."""

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, inputs, reverse=False):
        if not reverse:
            return self.dense(inputs)
        return keras.ops.matmul(inputs, keras.ops.transpose(self.dense.kernel))


@register
class OtherInSecondCall(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(4, name="first")
        self.second = layers.Dense(4, name="second")

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build(input_shape)

    def call(self, inputs, reverse=False):
        return self.second(inputs) if reverse else self.first(inputs)


@register
class LateInSecondCall(OtherInSecondCall):
    def build(self, input_shape):
        self.first.build(input_shape)


@register
class HoldsOneWithoutConfiguration(layers.Layer):
    """As T5 of keras-hub: a class inside of which Keras keeps no arguments."""

    class Factor(layers.Layer):
        def __init__(self, shape, dtype):
            super().__init__(dtype=dtype)
            self.factor = self.add_weight(shape=shape, initializer="ones")

        def call(self, inputs):
            return inputs * self.factor

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")
        self.scaled = self.Factor((4,), self.dtype_policy)

    def call(self, inputs):
        return self.scaled(self.dense(inputs))


@register
class SelfAttention(layers.Layer):
    """Has it under keras-hub's name for it, which resembles names of TensorFlow."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._self_attention_layer = layers.MultiHeadAttention(2, 3)
        self.without_weights = [layers.Softmax()]

    def build(self, input_shape):
        self._self_attention_layer.build(input_shape, input_shape)

    def call(self, inputs):
        attended = self._self_attention_layer(inputs, inputs)
        return self.without_weights[0](inputs + attended)

    def compute_output_shape(self, input_shape):
        return input_shape


@register
class ReadsBias(Tied):
    def call(self, inputs):
        return self.dense(inputs) + self.dense.bias


@register
class Normalized(layers.Layer):
    def __init__(self, norm=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")
        self.norm = layers.BatchNormalization(name="norm")

    def call(self, inputs, training=None):
        return self.norm(self.dense(inputs), training=training)


@register
class TwoInputs(layers.Layer):
    """Called with keywords, and several tensors in a list."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")

    def build(self, pair_shape, other_shape):
        self.dense.build(pair_shape[0])

    def call(self, pair, factor=1.0, other=None):
        return self.dense(pair[0]) * factor + pair[1] + other


@register
class WithoutTwins(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dropout = layers.Dropout(0.5)

    def call(self, inputs):
        return self.dropout(inputs)
