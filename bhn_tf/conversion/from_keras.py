"""From a Keras model to a Bayesian hypernetwork around a copy of it."""

import math

import keras
from absl import logging

from bhn_tf.conversion.carrying import carry_over
from bhn_tf.conversion.entering import generated_in
from bhn_tf.conversion.report import ConversionReport, ReportRow
from bhn_tf.conversion.rules import ConversionRules
from bhn_tf.conversion.selection import LayerSelection
from bhn_tf.hypernets import Chunked, Hypernet, MeanField, RealNVP
from bhn_tf.layers.random_layer import is_restricted
from bhn_tf.layers.weight_norm import WeightNorm
from bhn_tf.models.bayesian_hypernet import BayesianHypernet
from bhn_tf.models.refused_networks import (
    require_network,
    warn_of_steps_without_effect,
)
from bhn_tf.networks.copying import copy_network, is_graph, paths_of_layers

# The largest D of each choice. A RealNVP of 3,300 values has 8 million weights (32 MB).
# One over chunks has 2 D plus less than a million, but with many values a draw costs
# more than running a small network.
_LARGEST_OF_ONE_FLOW = 3_300
_LARGEST_OF_CHUNKS = 100_000


def from_keras(
    model,
    hypernet=None,
    random: str = "scale",
    only=None,
    skip=(),
    freeze=(),
    **kwargs,
) -> BayesianHypernet:
    """Turns a Keras model, trained or not, into a Bayesian hypernetwork.

    Dense, convolutional (plain, transposed, depthwise, separable), EinsumDense,
    attention, Embedding and recurrent layers (LSTM, GRU, SimpleRNN, ConvLSTM, also in
    `Bidirectional`) become their weight-normalised twins of `bhn_tf.layers`, in a copy
    with the same weights: at the centre the copy answers what the original does.
    Nested models and `TimeDistributed` are entered. Everything else is kept, and the
    original is left unchanged.

    A `BatchNormalization` cancels the scale of the layer before it, also through
    dropout, padding, pooling and concatenation. Then its γ is generated instead (and β
    for "scale_and_bias"), and the layer stays as it is; a normalisation without γ
    (`scale=False`) gets one, which is 1 at the centre. The same holds for a
    `GroupNormalization` with a group for each channel. Neither a sum of branches nor a
    normalisation over several channels cancels scales: `LayerNormalization`,
    `RMSNormalization` and `GroupNormalization` have their own γ generated in addition.

    Layers of your own classes are entered: layers that they hold as attributes, in
    lists or in dictionaries are replaced in a copy, which keeps its `call`. One that
    holds a batch normalisation stays as it is, since only its `call` knows what is
    normalised, and so does one that reads a kernel itself, as tied weights do: a draw
    would not reach it. The report gives these and other reasons.

    `model.conversion_report` says what became of every layer.

    Args:
        model: A Sequential or functional Keras model, built.
        hypernet: "realnvp", "iaf", "chunked", "mean_field", or an instance from
            `bhn_tf.hypernets`. `None` chooses by the number D of generated values,
            `RealNVP` up to 3,300, `Chunked` up to 100,000 and `MeanField` above, and
            logs the choice (`absl.logging`, level info).
        random: What is generated for each converted layer: "scale",
            "scale_and_bias", "rank_one", "kernel" or "kernel_and_bias". Whole kernels
            are generated even before a batch normalisation.
        only: The layers to make random: names, paths such as "outer/inner", layers
            themselves, classes, functions of a layer that return a bool, or one of
            these. A nested model, or its name, stands for all layers in it, and a name
            for every layer that has it. A batch normalisation that is itself named has
            its γ generated wherever it stands.
        skip: Layers not to make random, in the same way.
        freeze: Layers whose weights are no longer trained, in the same way; values
            generated for them still are.
        **kwargs: Arguments of `BayesianHypernet`: `likelihood`, `prior_stddev`,
            `num_examples`, `normalize_targets`, ...

    Returns:
        A `BayesianHypernet`, not compiled.

    Raises:
        ValueError: If the model's layers are not known to Keras or have no weights
            yet, a name or layer is not in the model, or nothing would be random.
        TypeError: If `model` is not a Keras model.

    Example:
    ```python
    model = bhn_tf.from_keras(network, num_examples=len(x))
    print(model.conversion_report)
    model.compile("adam")
    model.fit(x, y, epochs=3)
    ```
    """
    _require_convertible(model, random)
    # The copy is of Keras's own class.
    warn_of_steps_without_effect([model])
    paths = paths_of_layers(model)
    decisions = ConversionRules(model, paths, random, only, skip).decisions()
    frozen = LayerSelection("freeze", freeze, paths)

    def make(layer):
        return decisions[layer].new_layer(layer)

    copies = copy_network(model, make, carry_over)
    for layer in paths:
        if frozen.covers(layer):
            copies[layer].trainable = False
    report = _report(paths, decisions, copies)
    if not report.num_random:
        raise ValueError(
            f"Nothing in {model.name!r} would be random:\n{report}\nSupported are "
            "Dense, EinsumDense, Embedding, convolutional, recurrent, attention and "
            "normalising layers; for others use `bhn_tf.layers` in the network itself."
        )
    if hypernet is None:
        hypernet = _chosen_hypernet(report.num_random)
    converted = BayesianHypernet(copies[model], hypernet, **kwargs)
    converted.conversion_report = report
    return converted


def _require_convertible(model, random):
    if random not in WeightNorm.GENERATED or random == "none":
        modes = sorted(set(WeightNorm.GENERATED) - {"none"})
        raise ValueError(f"Expected `random` to be one of {modes}, got {random!r}.")
    require_network("model", model, keras.Model)
    if not is_graph(model):
        raise ValueError(
            f"{type(model).__name__} {model.name!r} has a `call` of its own, so its "
            "layers cannot be replaced from outside. Use the layers of "
            "`bhn_tf.layers` inside the class; `bhn_tf.BayesianHypernet(model)` takes "
            "it as it is."
        )
    if not model.built or not hasattr(model, "inputs"):
        raise ValueError(
            f"{type(model).__name__} {model.name!r} has no weights to carry over yet. "
            "Call `model.build(input_shape)`, or start it with `keras.Input(shape)`."
        )


def _report(paths, decisions, copies):
    rows = []
    for layer, (path, *others) in paths.items():
        copied, reason = copies[layer], decisions[layer].reason
        if others:
            shared = f"shared with {', '.join(others)}"
            reason = f"{reason}; {shared}".removeprefix("; ")
        names, num_random = [], 0
        generated = list(generated_in(copied))
        for place, variable in generated:
            names.append("/".join([*place, variable.name]))
            num_random += math.prod(variable.shape)
        if any(is_restricted(variable) for _, variable in generated):
            lost = "regularizers and constraints of what is generated have no effect"
            reason = f"{reason}; {lost}".removeprefix("; ")
        kind = type(layer).__name__
        rows.append(ReportRow(path, kind, tuple(names), num_random, reason))
    return ConversionReport(tuple(rows))


def _chosen_hypernet(num_random: int) -> Hypernet:
    """Returns a flow over all values at once or over chunks, or no flow."""
    if num_random <= _LARGEST_OF_ONE_FLOW:
        chosen: Hypernet = RealNVP()
    elif num_random <= _LARGEST_OF_CHUNKS:
        chosen = Chunked()
    else:
        chosen = MeanField()
    logging.info(
        "Chose the hypernet %s for D = %s generated values: RealNVP up to %s, Chunked "
        "up to %s, MeanField above. Another one can be given as `hypernet`.",
        type(chosen).__name__,
        f"{num_random:,}",
        f"{_LARGEST_OF_ONE_FLOW:,}",
        f"{_LARGEST_OF_CHUNKS:,}",
    )
    return chosen
