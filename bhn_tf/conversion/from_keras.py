"""From a Keras model to a Bayesian hypernetwork around a copy of it."""

import math

import keras
from absl import logging

from bhn_tf.conversion.carrying import carry_over
from bhn_tf.conversion.entering import generated_in
from bhn_tf.conversion.report import ConversionReport, ReportRow
from bhn_tf.conversion.rules import ConversionRules
from bhn_tf.conversion.selection import LayerSelection, paths_of_layers
from bhn_tf.hypernets import MeanField, RealNVP
from bhn_tf.layers.weight_norm import WeightNorm
from bhn_tf.models.bayesian_hypernet import BayesianHypernet
from bhn_tf.networks.copying import copy_network, is_graph

# A hypernet of this many weights (16 MB) is affordable beside any network.
_ALWAYS_AFFORDABLE = 4_000_000


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
    Everything else is kept. The original is left as it is.

    Where a `BatchNormalization` follows a layer, it cancels the layer's scale, also
    through dropout, padding, pooling and concatenation. There γ is generated instead
    (and β for "scale_and_bias"), and the layer stays as it is; without a γ
    (`scale=False`) it gets one, which is 1 at the centre. A `GroupNormalization` with
    a group for each channel does the same. A sum of branches does not cancel their
    scales, nor does a normalisation over several channels: `LayerNormalization`,
    `RMSNormalization` and `GroupNormalization` have their own γ generated besides.

    Layers of classes of your own are entered: those that they hold as attributes, in
    lists or in dictionaries are exchanged in a copy, which keeps its `call`. One that
    holds a batch normalisation stays as it is, since only its `call` knows what that
    normalises; the report names this reason and others.

    `model.conversion_report` says what became of every layer.

    Args:
        model: A Sequential or functional Keras model, built.
        hypernet: "realnvp", "iaf", "mean_field", or an instance from
            `bhn_tf.hypernets`. `None` chooses by the number of generated values and
            logs what it chose (`absl.logging`, level info).
        random: What is generated for each converted layer: "scale",
            "scale_and_bias", "rank_one", "kernel" or "kernel_and_bias". Whole kernels
            are generated also before a batch normalisation.
        only: The layers to make random: names, paths such as "outer/inner", layers
            themselves, classes, functions of a layer that return a bool, or one of
            these. A nested model, or its name, stands for all layers in it; a name
            for every layer that has it. A batch normalisation that is named itself
            has its γ generated wherever it stands.
        skip: Layers not to make random, in the same way.
        freeze: Layers whose weights are not trained any more, in the same way; what
            is generated for them still is.
        **kwargs: Arguments of `BayesianHypernet`: `likelihood`, `prior_stddev`,
            `num_examples`, ...

    Returns:
        A `BayesianHypernet`, not compiled.

    Raises:
        ValueError: If the model's layers are not known to Keras or have no weights
            yet, a name or layer is none of the model's, or nothing would be random.
        TypeError: If `model` is no Keras model.

    Example:
    ```python
    model = bhn_tf.from_keras(network, num_examples=len(x))
    print(model.conversion_report)
    model.compile("adam")
    model.fit(x, y, epochs=3)
    ```
    """
    _require_convertible(model, random)
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
        hypernet = _chosen_hypernet(report.num_random, model.count_params())
    converted = BayesianHypernet(copies[model], hypernet, **kwargs)
    converted.conversion_report = report
    return converted


def _require_convertible(model, random):
    if random not in WeightNorm.GENERATED or random == "none":
        modes = sorted(set(WeightNorm.GENERATED) - {"none"})
        raise ValueError(f"Expected `random` to be one of {modes}, got {random!r}.")
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"Expected `model` to be a Keras model, got {type(model).__name__}."
        )
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
        for place, variable in generated_in(copied):
            names.append("/".join([*place, variable.name]))
            num_random += math.prod(variable.shape)
        kind = type(layer).__name__
        rows.append(ReportRow(path, kind, tuple(names), num_random, reason))
    return ConversionReport(tuple(rows))


def _chosen_hypernet(num_random, num_weights):
    """A flow while it is small in itself, or no larger than the network.

    Each coupling layer has two matrices, from the D / 2 values it keeps to the hidden
    units and from there to shift and log-scale of the other D / 2.
    """
    flow = RealNVP()
    size = int(flow.num_layers * flow.hidden_units[0] * 1.5 * num_random)
    is_flow = size <= max(num_weights, _ALWAYS_AFFORDABLE)
    chosen = flow if is_flow else MeanField()
    logging.info(
        "Chose the hypernet %s for D = %s generated values: a RealNVP %s about %s "
        "weights, the network %s. Another one can be given as `hypernet`.",
        type(chosen).__name__,
        f"{num_random:,}",
        "has" if is_flow else "would have",
        f"{size:,}",
        f"{num_weights:,}",
    )
    return chosen
