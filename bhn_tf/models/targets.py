"""Targets of a regression before training: their units, and noise that fits them."""

import warnings

import keras
import numpy as np

from bhn_tf.likelihoods import Standardized
from bhn_tf.likelihoods.elements import align

# Networks start near 0 with answers of size 1; further away than this from that, noise
# of size 1 is learned long before the mean is.
_FAR = 10.0


def adapt_to_targets(likelihood, feed, validation_split: float = 0.0) -> None:
    """Tells likelihoods in standard units the units of the training targets.

    Args:
        likelihood: The model's likelihood.
        feed: The training data.
        validation_split: Share of arrays that `fit` sets aside, which stays unseen.

    Raises:
        ValueError: If the targets cannot be read before training.
    """
    parts = likelihood.parts_of_outputs()
    if not any(map(_lacks_units, parts)):
        return
    num_rows = None if feed.num_rows is None else feed.count(validation_split)
    batches = [
        _targets_and_weights(likelihood, *batch) for batch in feed.labels_and_weights()
    ]
    for part, *of_batches in zip(parts, *batches, strict=True):
        if not _lacks_units(part):
            continue
        targets, weights = zip(*of_batches, strict=True)
        y = np.concatenate(targets)[:num_rows]
        weight = None
        if weights[0] is not None:
            weight = np.concatenate(weights)[:num_rows]
        part.adapt(y, weight)


def require_units(likelihood) -> None:
    """Raises `ValueError` where targets would be judged in units that nobody told."""
    if any(map(_lacks_units, likelihood.parts_of_outputs())):
        raise ValueError(
            "The units of the targets are not known, in which a network with "
            "`normalize_targets=True` is trained and judged: call `fit` first, or tell "
            "them to the likelihood, `model.likelihood.adapt(y)`; of several outputs, "
            "to those of `model.likelihood.parts` that are `Standardized`."
        )


def _lacks_units(part) -> bool:
    return isinstance(part, Standardized) and not part.is_adapted


def warn_of_units(likelihood, feed) -> None:
    """Warns of targets so far from 0 or 1 that their noise would not be learned."""
    if feed.num_rows is None:
        return
    for part, (y, weight) in zip(
        likelihood.parts_of_outputs(),
        _targets_and_weights(likelihood, feed.y, feed.sample_weight),
        strict=True,
    ):
        if not part.has_unit or isinstance(part, Standardized):
            continue
        y = np.asarray(y, "float64")
        counts = np.isfinite(y)
        if weight is not None:
            counts &= np.asarray(align(weight, y.shape, "weight")) != 0
        y = y[counts]
        noise = max(part.stddev, 1.0)
        if y.size and (y.std() > _FAR * noise or abs(y.mean()) > _FAR * noise):
            warnings.warn(
                f"The targets have mean {y.mean():.4g} and standard deviation "
                f"{y.std():.4g}, and the noise starts at {part.stddev:.4g}: a network "
                "that starts near 0 learns such noise slowly, and its intervals are "
                "wrong until then. Give the model `normalize_targets=True`, which "
                "answers in the units of y, or scale y yourself.",
                stacklevel=5,
            )


def set_noise_to_targets(likelihood, y) -> None:
    """Starts the noise of regressions at the standard deviation of their targets.

    What was settled before stays: noise that is not learned, and units.

    Args:
        likelihood: The model's likelihood.
        y: Labels, as arrays.
    """
    parts = likelihood.parts_of_outputs()
    both = _targets_and_weights(likelihood, y, None)
    for part, (targets, _) in zip(parts, both, strict=True):
        if isinstance(part, Standardized):
            if _lacks_units(part):
                part.adapt(targets)
            if not part.likelihood.is_noise_fixed:
                # In its units the targets have this standard deviation.
                part.likelihood.set_stddev(1.0)
        elif part.has_unit and not part.is_noise_fixed and targets.std() > 0:
            part.set_stddev(float(targets.std()))


def _targets_and_weights(likelihood, y, weight) -> list[tuple]:
    """Targets and weights, which may be `None`, of each output."""
    names = likelihood.output_names
    targets = likelihood.flatten(y) if names else [y]
    if isinstance(weight, dict):
        weights = [weight.get(name) for name in names]
    elif keras.tree.is_nested(weight):
        weights = keras.tree.flatten(weight)
    else:
        weights = [weight] * len(targets)
    return [
        (_as_numbers(part), None if values is None else _as_numbers(values))
        for part, values in zip(targets, weights, strict=True)
    ]


def _as_numbers(values):
    return np.asarray(keras.ops.convert_to_numpy(values))
