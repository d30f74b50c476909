"""Adapts units and noise to the targets of a regression before training."""

from collections.abc import Iterator

import keras
import numpy as np

from bhn_tf.likelihoods import Standardized
from bhn_tf.likelihoods.elements import align
from bhn_tf.user_warnings import warn_user

# Networks start near 0 with outputs of size 1. For targets further away than this, the
# mean is learned long after noise of size 1.
_FAR = 10.0
# So many rows show whether targets are far; to find the padding of all of them would
# take a pass through the network in each `fit`.
_ROWS_WITH_PADDING = 1024


def adapt_to_targets(
    likelihood, feed, validation_split: float = 0.0, padding=None
) -> None:
    """Gives likelihoods in standard units the units of the training targets.

    Args:
        likelihood: The model's likelihood.
        feed: The training data.
        validation_split: Share of arrays that `fit` sets aside; it is not read.
        padding: Maps inputs to the masks of the outputs; `None` if there are none.

    Raises:
        ValueError: If the targets cannot be read before training.
    """
    if not _any_lacks_units(likelihood):
        return
    parts = likelihood.parts_of_outputs()
    num_rows = None if feed.num_rows is None else feed.count(validation_split)
    batches = [
        _targets_and_weights(likelihood, *batch)
        for batch in feed.labels_and_weights(padding)
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
    """Raises `ValueError` if a likelihood in standard units lacks those of y."""
    if _any_lacks_units(likelihood):
        raise ValueError(
            "The units of the targets are not known, in which a network with "
            "`normalize_targets=True` is trained and judged: call `fit` first, or tell "
            "them to the likelihood, `model.likelihood.adapt(y)`; of several outputs, "
            "to those of `model.likelihood.parts` that are `Standardized`."
        )


def require_units_of_all_rows(likelihood) -> None:
    """Raises `ValueError` if a likelihood would learn its units from a share of y."""
    if _any_lacks_units(likelihood):
        raise ValueError(
            "With the auto-shard policy OFF, each worker's data set is a share of the "
            "rows, and each network would work in units of its own, which "
            "`normalize_targets=True` takes from the targets. Tell the likelihood "
            "before `fit`, `model.likelihood.adapt(y)` with the same y on every "
            "worker; of several outputs, tell those of `model.likelihood.parts` that "
            "are `Standardized`."
        )


def _any_lacks_units(likelihood) -> bool:
    return any(map(_lacks_units, likelihood.parts_of_outputs()))


def _lacks_units(part) -> bool:
    return isinstance(part, Standardized) and not part.is_adapted


def warn_of_units(likelihood, feed, padding=None) -> None:
    """Warns of targets so far from 0 or 1 that their noise would not be learned.

    Args:
        likelihood, feed, padding: As in `adapt_to_targets`.
    """
    if feed.num_rows is None:
        return
    if padding is not None:
        feed = feed.first_rows(_ROWS_WITH_PADDING)
        if not any(_far_from_noise(likelihood, feed, None)):
            # No target is far, and which ones are padding need not be found out.
            return
    for part, y in _far_from_noise(likelihood, feed, padding):
        noise = max(part.stddev, 1.0)
        if y.std() > _FAR * noise or abs(y.mean()) > _FAR * noise:
            warn_user(
                f"The targets have mean {y.mean():.4g} and standard deviation "
                f"{y.std():.4g}, and the noise starts at {part.stddev:.4g}: a network "
                "that starts near 0 learns such noise slowly, and its intervals are "
                "wrong until then. Give the model `normalize_targets=True`, which "
                "answers in the units of y, or scale y yourself.",
            )


def _far_from_noise(likelihood, feed, padding) -> Iterator[tuple]:
    """Yields each likelihood for which some targets are far, and its targets."""
    ((labels, weights, masks),) = feed.labels_and_weights(padding)
    for part, (y, weight) in zip(
        likelihood.parts_of_outputs(),
        _targets_and_weights(likelihood, labels, weights, masks),
        strict=True,
    ):
        if part.has_unit and not isinstance(part, Standardized):
            y = _counted(np.asarray(y, "float64"), weight)
            y = y[np.isfinite(y)]
            if (np.abs(y) > _FAR * max(part.stddev, 1.0)).any():
                yield part, y


def set_noise_to_targets(likelihood, feed, padding=None) -> None:
    """Starts the noise of regressions at the standard deviation of their targets.

    Noise that is not learned, and units that are set, stay as they are.

    Args:
        likelihood: The model's likelihood.
        feed: Arrays with labels.
        padding: As in `adapt_to_targets`.
    """
    masks = None if padding is None else padding(feed.x)
    parts = likelihood.parts_of_outputs()
    both = _targets_and_weights(likelihood, feed.y, None, masks)
    for part, (targets, weight) in zip(parts, both, strict=True):
        if isinstance(part, Standardized):
            if _lacks_units(part):
                part.adapt(targets, weight)
            if not part.likelihood.is_noise_fixed:
                # The standard deviation of the targets in standard units.
                part.likelihood.set_stddev(1.0)
        elif part.has_unit and not part.is_noise_fixed:
            stddev = float(_counted(targets, weight).std())
            if stddev > 0:
                part.set_stddev(stddev)


def _targets_and_weights(likelihood, y, weight, masks) -> list[tuple]:
    """Targets and weights of each output: 0 for padding; `None` if all are 1."""
    names = likelihood.output_names
    masks = masks if names and masks is not None else [masks] * max(len(names), 1)
    targets = [_as_numbers(y) for y in (likelihood.flatten(y) if names else [y])]
    weights = likelihood.weights_of_outputs(weight)
    return [
        (part, _weight_that_counts(part, *of_part))
        for part, *of_part in zip(targets, weights, masks, strict=True)
    ]


def _weight_that_counts(targets, weight, mask):
    weight = None if weight is None else _as_numbers(weight)
    if mask is None:
        return weight
    mask = _as_numbers(align(mask, targets.shape, "mask")).astype("float64")
    if weight is None:
        return mask
    return mask * align(weight, targets.shape, "weight").numpy()


def _counted(targets, weight):
    """The targets that count, flat, or in their own shape without weights."""
    if weight is None:
        return targets
    counts = np.asarray(align(weight, targets.shape, "weight")) != 0
    return targets[np.broadcast_to(counts, targets.shape)]


def _as_numbers(values):
    return np.asarray(keras.ops.convert_to_numpy(values))
