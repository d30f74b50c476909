"""Dense layers with an equation."""

import re
import string
from typing import NamedTuple

import keras
import tensorflow as tf

from bhn_tf.layers.generated import is_of_rows
from bhn_tf.layers.weight_norm import WeightNorm


class Equation(NamedTuple):
    """The labels of an equation such as "...x,xy->...y", dots included.

    Attributes:
        inputs: Labels of the inputs' axes.
        kernel: Labels of the kernel's axes, without dots.
        outputs: Labels of the outputs' axes.
    """

    inputs: str
    kernel: str
    outputs: str

    @classmethod
    def of(cls, text: str) -> "Equation":
        """Reads an equation in the form that `keras.layers.EinsumDense` takes."""
        return cls(*re.split(",|->", text.replace(" ", "")))

    def without_dots(self, rank: int) -> "Equation":
        """The equation for inputs of a rank, with unused letters for dots."""
        unused = [i for i in string.ascii_letters if i not in "".join(self)]
        dots = "".join(unused[: rank - len(self.inputs.replace("...", ""))])
        return Equation(*(labels.replace("...", dots) for labels in self))

    @property
    def summed(self) -> list[str]:
        """Labels of inputs and kernel alone, in the order of the inputs."""
        return [i for i in self.inputs if i in self.kernel and i not in self.outputs]

    @property
    def scaled(self) -> list[str]:
        """Labels of kernel and outputs, in the order of the kernel."""
        return [label for label in self.kernel if label in self.outputs]

    def axis_of_outputs(self, label: str) -> int:
        """The axis with a label; behind dots it is counted from the end."""
        before, _, behind = self.outputs.partition("...")
        if label in before:
            return before.index(label)
        return behind.index(label) - len(behind)


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormEinsumDense(WeightNorm, keras.layers.EinsumDense):
    """An einsum with a weight-normalised kernel.

    The norm is taken over the contracted axes of the kernel; there is one scale for
    each combination of its other axes, which are those of the outputs.

    Args:
        equation: As in `keras.layers.EinsumDense`, such as "abc,cd->abd".
        output_shape: As there.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.EinsumDense`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormEinsumDense("abc,cde->abde", (None, 4, 8))
    ```
    """

    def norm_axes(self):
        _, kernel, outputs = Equation.of(self.equation)
        return [axis for axis, label in enumerate(kernel) if label not in outputs]

    def _product(self, inputs, kernel):
        # With dots `tf.einsum` multiplies a stack of matrices by one, which oneDNN
        # gets wrong in half precision on CPUs with AMX or AVX512-FP16; with stacks of
        # rank 4, `tf.matmul` reads beyond the kernel (TensorFlow issue 117700). A
        # single product of two matrices is right everywhere, and fast.
        equation = Equation.of(self.equation).without_dots(len(inputs.shape))
        of_inputs, of_kernel, of_outputs = equation
        summed = [label for label in of_kernel if label in of_inputs]
        products = [label for label in of_inputs + of_kernel if label not in summed]
        if sorted(products) != sorted(of_outputs):
            # A kernel for each position, or a sum over positions.
            letters = f"{of_inputs},{of_kernel}->{of_outputs}"
            return keras.ops.einsum(letters, inputs, kernel)
        axes = [
            [labels.index(label) for label in summed]
            for labels in (of_inputs, of_kernel)
        ]
        outputs = keras.ops.tensordot(inputs, kernel, axes)
        return keras.ops.transpose(outputs, [products.index(i) for i in of_outputs])

    def _axes_of_inputs(self, input_shape):
        equation = Equation.of(self.equation).without_dots(len(input_shape))
        return [equation.inputs.index(label) for label in equation.summed]

    def _inputs_over_kernel(self, values):
        # In the order of the inputs' axes, which need not be the kernel's.
        equation = Equation.of(self.equation)
        of_inputs = equation.summed
        summed = [label for label in equation.kernel if label in of_inputs]
        values = tf.transpose(values, [of_inputs.index(label) for label in summed])
        sizes = zip(equation.kernel, self.direction.shape, strict=True)
        return tf.reshape(values, [n if i in summed else 1 for i, n in sizes])

    def _axes_of_scales(self, rank):
        equation = Equation.of(self.equation)
        return [equation.axis_of_outputs(label) % rank for label in equation.scaled]

    def _over_outputs(self, values, variable, outputs):
        is_per_row = is_of_rows(values, variable)
        rank, sizes = len(outputs.shape), list(variable.shape)
        if variable is self.bias:
            # Keras keeps a bias in the shape of the outputs' last axes.
            shape = [1] * (rank - len(sizes)) + sizes
        else:
            axes = self._axes_of_scales(rank)
            order = sorted(range(len(axes)), key=axes.__getitem__)
            leading = [0] if is_per_row else []
            values = tf.transpose(values, leading + [is_per_row + i for i in order])
            shape = [1] * rank
            for axis, size in zip(axes, sizes, strict=True):
                shape[axis] = size
        if is_per_row:
            shape[0] = -1
        return tf.cast(tf.reshape(values, shape), outputs.dtype)
