"""Targets of a regression before training: their units, and noise that fits them."""

import warnings

import keras
import numpy as np

from bhn_tf.likelihoods import Standardized

# Networks start near 0 with answers of size 1; further away than this from that, noise
# of size 1 is learned long before the mean is.
_FAR = 10.0


def adapt_to_targets(likelihood, feed) -> None:
    """Tells likelihoods in standard units the units of the training targets.

    Args:
        likelihood: The model's likelihood.
        feed: The training data.

    Raises:
        ValueError: If the targets cannot be read before training.
    """
    for index, part in enumerate(likelihood.parts_of_outputs()):
        if isinstance(part, Standardized) and not part.is_adapted:
            part.adapt(_all_targets(likelihood, feed)[index])


def warn_of_units(likelihood, feed) -> None:
    """Warns of targets so far from 0 or 1 that their noise would not be learned."""
    if feed.num_rows is None:
        return
    for part, y in zip(
        likelihood.parts_of_outputs(), _targets(likelihood, feed.y), strict=True
    ):
        if not part.has_unit or isinstance(part, Standardized):
            continue
        y = np.asarray(y, "float64")
        y = y[np.isfinite(y)]
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

    Args:
        likelihood: The model's likelihood.
        y: Labels, as arrays.
    """
    parts = likelihood.parts_of_outputs()
    for part, targets in zip(parts, _targets(likelihood, y), strict=True):
        if isinstance(part, Standardized):
            part.adapt(targets)
        elif part.has_unit and targets.std() > 0:
            part.set_stddev(float(targets.std()))


def _all_targets(likelihood, feed) -> list:
    """The targets of all rows, for each output."""
    if feed.num_rows is not None:
        return _targets(likelihood, feed.y)
    batches = [_targets(likelihood, batch) for batch in feed.labels()]
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


def _targets(likelihood, y) -> list:
    flat = likelihood.flatten(y) if likelihood.output_names else [y]
    return [np.asarray(keras.ops.convert_to_numpy(part)) for part in flat]
