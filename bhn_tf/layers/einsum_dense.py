"""Dense layers with an equation."""

import re
import string

import keras
import tensorflow as tf

from bhn_tf.layers.generated import is_of_rows
from bhn_tf.layers.weight_norm import WeightNorm


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

    def _labels(self):
        """Labels of the kernel's axes and of the outputs'.

        Dots are left out; the third result is whether they stand before the outputs'.
        """
        operands, outputs = self.equation.replace(" ", "").split("->")
        kernel = operands.split(",")[1]
        return kernel, outputs.replace("...", ""), outputs.startswith("...")

    def _norm_axes(self):
        kernel, outputs, _ = self._labels()
        return [axis for axis, label in enumerate(kernel) if label not in outputs]

    def _product(self, inputs, kernel):
        # With dots `tf.einsum` multiplies a stack of matrices by one, which oneDNN
        # gets wrong in half precision on CPUs with AMX or AVX512-FP16; of stacks of
        # rank 4, `tf.matmul` reads beyond the kernel (TensorFlow issue 117700). A
        # single product of two matrices is right everywhere, and fast.
        of_inputs, of_kernel, of_outputs = self._letters(len(inputs.shape))
        summed = [label for label in of_kernel if label in of_inputs]
        products = [label for label in of_inputs + of_kernel if label not in summed]
        if sorted(products) != sorted(of_outputs):
            # A kernel for each position, or a sum over positions.
            equation = f"{of_inputs},{of_kernel}->{of_outputs}"
            return keras.ops.einsum(equation, inputs, kernel)
        axes = [
            [labels.index(label) for label in summed]
            for labels in (of_inputs, of_kernel)
        ]
        outputs = keras.ops.tensordot(inputs, kernel, axes)
        return keras.ops.transpose(outputs, [products.index(i) for i in of_outputs])

    def _letters(self, rank):
        """Labels of inputs of that rank, the kernel and outputs; letters for dots."""
        equation = self.equation.replace(" ", "")
        inputs, kernel, outputs = re.split(",|->", equation)
        unused = [letter for letter in string.ascii_letters if letter not in equation]
        dots = "".join(unused[: rank - len(inputs.replace("...", ""))])
        return inputs.replace("...", dots), kernel, outputs.replace("...", dots)

    def _axes_of_inputs(self, input_shape):
        inputs, kernel, outputs = self._letters(len(input_shape))
        return [
            axis
            for axis, label in enumerate(inputs)
            if label in kernel and label not in outputs
        ]

    def _inputs_over_kernel(self, values):
        # In the order of the inputs' axes, which need not be the kernel's.
        inputs, _, outputs = re.split(",|->", self.equation.replace(" ", ""))
        kernel, _, _ = self._labels()
        of_inputs = [i for i in inputs if i in kernel and i not in outputs]
        summed = [label for label in kernel if label in of_inputs]
        values = tf.transpose(values, [of_inputs.index(label) for label in summed])
        sizes = zip(kernel, self.direction.shape, strict=True)
        return tf.reshape(values, [n if i in summed else 1 for i, n in sizes])

    def _axes_of_scales(self, rank):
        kernel, outputs, dots_first = self._labels()
        shift = rank - len(outputs) if dots_first else 0
        return [shift + outputs.index(label) for label in kernel if label in outputs]

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
