"""The base of all layers whose weights a hypernet may generate."""

import math
from typing import ClassVar

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import current_value


def scales_inputs(variable) -> bool:
    """Whether a generated variable multiplies inputs, so that 1 changes nothing."""
    return variable.name.endswith("input_scale")


def is_restricted(variable) -> bool:
    """Whether a variable has a regulariser or a constraint.

    They act on trained weights, and have no effect on generated ones.
    """
    return variable.regularizer is not None or variable.constraint is not None


def generates_kernel(random: str) -> bool:
    """Whether kernels are generated whole, without scales."""
    return random.startswith("kernel")


class RandomLayer:
    """Mixin before a Keras layer: says which of its weights are generated.

    Regularisers and constraints of generated weights have no effect: the prior
    regularises them.

    Args:
        random: A key of `GENERATED`.

    Raises:
        ValueError: If `random` is no such key.
    """

    #: Names of the generated weights, in the order of g, by the argument `random`.
    GENERATED: ClassVar[dict[str, tuple[str, ...]]] = {"none": ()}

    # Provided by the Keras layer.
    built: bool
    compute_dtype: str
    name: str
    variables: list

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        bases = cls.__mro__
        if keras.layers.Layer in bases[: bases.index(RandomLayer)]:
            raise TypeError(
                f"`RandomLayer` has to come before the Keras layer in the bases of "
                f"{cls.__name__}, as in `class {cls.__name__}(RandomLayer, ...)`."
            )

    def __init__(self, *args, random="scale", **kwargs):
        if random not in self.GENERATED:
            raise ValueError(
                f"Expected `random` to be one of {sorted(self.GENERATED)}, "
                f"got {random!r}."
            )
        self._is_generated = False
        super().__init__(*args, **kwargs)
        self.random = random

    @property
    def generated_weights(self) -> list:
        """The variables that a hypernet generates for this layer, in order of g."""
        if not self.built:
            raise ValueError(
                f"Layer {self.name!r} has no weights yet; build it or call it on data."
            )
        names = self.GENERATED[self.random]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise AttributeError(
                f"`{type(self).__name__}.GENERATED` has {missing} for "
                f"`random={self.random!r}`, and the layer has no weights of these "
                "names. Expected a tuple of names of attributes that `build` sets, "
                "such as ('scale',)."
            )
        variables = [getattr(self, name) for name in names]
        return [variable for variable in variables if variable is not None]

    @property
    def num_random(self) -> int:
        """The layer's share of D."""
        return sum(math.prod(variable.shape) for variable in self.generated_weights)

    @property
    def supports_scales_per_row(self) -> bool:
        """Whether every row can have a draw of its own."""
        return not generates_kernel(self.random)

    def as_floats(self, inputs):
        """Casts integers and booleans of another layer, as of `StringLookup`.

        Raises:
            TypeError: If they are the data themselves, which have not been scaled.
        """
        if inputs.dtype.is_floating:
            return inputs
        if self._takes_integer_data():
            raise TypeError(
                f"Layer {self.name!r} got inputs of dtype {inputs.dtype.name}. Scale "
                "images to [0, 1] and cast them first: "
                "`x = x.astype('float32') / 255`."
            )
        return keras.ops.cast(inputs, self.compute_dtype)

    def _takes_integer_data(self) -> bool:
        """Whether integers that reach the layer come from no other layer."""
        tensors = keras_adapter.inputs_in_graphs(self)
        if not tensors:
            return keras_adapter.outermost_layer() is self
        return any(
            isinstance(keras_adapter.origin_of(tensor)[0], keras.layers.InputLayer)
            and not keras.backend.is_float_dtype(tensor.dtype)
            for tensor in tensors
        )

    def fold_into(self, layer) -> None:
        """Gives a Keras layer the weights with which it computes what this one does.

        Generated values are taken from the current scope.

        Args:
            layer: A built layer of the Keras class that this one derives from.
        """
        own = {variable.name: variable for variable in self.variables}
        for variable in layer.variables:
            variable.assign(current_value(own[variable.name]))

    def hand_over(self) -> None:
        """Leaves the generated weights to a hypernet.

        They are no longer trained themselves, whatever `trainable` is set to later.
        """
        self._is_generated = True
        for variable in self.generated_weights:
            variable.trainable = False

    @property
    def trainable(self):
        return super().trainable

    @trainable.setter
    def trainable(self, value):
        super(RandomLayer, type(self)).trainable.fset(self, value)
        if self._is_generated:
            self.hand_over()

    def get_config(self):
        return {**super().get_config(), "random": self.random}
