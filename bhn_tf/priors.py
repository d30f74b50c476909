"""Priors p(g) as TFP distributions over D values, and how they are saved."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bhn_tf.arguments import check_amount, fit_float32
from bhn_tf.likelihoods.support import support
from bhn_tf.random import stateless_seed
from bhn_tf.user_warnings import warn_user


def gaussian(event_size: int, loc, stddev) -> tfd.Distribution:
    """Returns N(loc, stddev² I), the paper's prior if `loc` is 0 and `stddev` 1.

    Args:
        event_size: D.
        loc: A number, D numbers, or `None` for zero.
        stddev: Standard deviation of every value, a number or a tensor.

    Raises:
        ValueError: If `loc` is neither one number nor D numbers.
    """
    loc = 0.0 if loc is None else loc
    if np.shape(loc) not in ((), (1,), (event_size,)):
        raise ValueError(
            f"`prior_loc` has the shape {np.shape(loc)}, but the network has "
            f"D = {event_size} generated values. Give one number, or one for each."
        )
    loc = tf.zeros([event_size]) + loc
    return tfd.Independent(tfd.Normal(loc, stddev), 1)


#: Means that follow from the network.
NAMED_LOCS = ("trained", "unit_inputs")


def checked_loc(prior_loc):
    """Returns the mean of a prior in a form that JSON can hold.

    Args:
        prior_loc: A number, D numbers, one of `NAMED_LOCS`, or `None`.

    Raises:
        ValueError: If it is none of these.
    """
    if prior_loc is None or (isinstance(prior_loc, str) and prior_loc in NAMED_LOCS):
        return prior_loc
    numbers = np.asarray(prior_loc)
    is_numbers = numbers.dtype.kind in "biuf"
    if not is_numbers or not fit_float32(numbers):
        raise ValueError(
            "Expected `prior_loc` to be a number or D numbers, all finite, or one of "
            f"{list(NAMED_LOCS)}, got {prior_loc!r}. They are held in float32."
        )
    return numbers.tolist()


# Draws that show what kind of distribution a prior is.
_NUM_DRAWS = 20
# Smallest magnitude of a value, relative to the root mean square of those around it.
_SMALLEST_MAGNITUDE = 0.1


@dataclasses.dataclass(frozen=True)
class Trained:
    """N(g₀, (r |g₀|)²): a Gaussian around the initial values of a given network.

    For fine-tuning, the values of a trained network are the belief before the new data.
    The prior is fixed when the model is built, and saved with it. A value near zero,
    such as a bias, counts as a tenth of the root mean square of all generated values of
    its kind in the layer, and as 1 if all of these are zero.

    Args:
        relative_stddev: r, the standard deviation of each value relative to its size.

    Example:
    ```python
    prior = bhn_tf.priors.Trained(relative_stddev=0.05)
    model = bhn_tf.from_keras(network, prior=prior)
    ```
    """

    relative_stddev: float = 0.1

    def __post_init__(self):
        check_amount("relative_stddev", self.relative_stddev)

    def around(self, values: list[np.ndarray]) -> np.ndarray:
        """Returns location and standard deviation of the D values, [2, D].

        Args:
            values: Values of each variable, in the order of g.

        Example:
        ```python
        Trained(0.5).around([np.array([2.0, -4.0])])  # [[2, -4], [1, 2]]
        ```
        """
        stddevs = []
        for each in values:
            size = np.sqrt(np.mean(np.square(each)))
            smallest = _SMALLEST_MAGNITUDE * size if size > 0 else 1.0
            magnitudes = np.maximum(np.abs(each), smallest)
            stddevs.append(self.relative_stddev * magnitudes.ravel())
        locations = [np.ravel(each) for each in values]
        return np.stack([np.concatenate(locations), np.concatenate(stddevs)])


#: Names that `prior_stddev` may have, and whether each layer then has its own.
LEARNED = {"learned": False, "learned_per_layer": True}


class LearnedStddev(keras.layers.Layer):
    """Standard deviations of a Gaussian prior that are trained on the bound.

    Empirical Bayes: for a fixed q the bound is greatest if the square of each is the
    mean of `E_q[(g - loc)²]` over the values that share it. They start at 1.

    Args:
        per_layer: Whether each layer has its own standard deviation.

    Reference: Blundell et al., "Weight Uncertainty in Neural Networks" (2015), section
    3.3, found that single weights must not have their own priors; MacKay, "A Practical
    Bayesian Framework for Backpropagation Networks" (1992), had one per layer.

    Example:
    ```python
    learned = LearnedStddev(per_layer=True)
    learned.build_for([2, 3])
    learned.stddev  # [5], all 1
    ```
    """

    def __init__(self, per_layer: bool, **kwargs):
        super().__init__(**{"name": "prior_stddev", **kwargs, "dtype": "float32"})
        self.per_layer = per_layer

    def build_for(self, layer_sizes: list[int]) -> None:
        """Makes the weights.

        Args:
            layer_sizes: How many of the D values each layer takes, in the order of g.
        """
        sizes = [size for size in layer_sizes if size]
        self._sizes = sizes if self.per_layer else [sum(sizes)]
        self.log_stddev = self.add_weight(
            name="log_stddev", shape=(len(self._sizes),), initializer="zeros"
        )
        # The layer may have been frozen before.
        self.log_stddev.trainable = self.trainable
        self.built = True

    @property
    def stddev(self) -> tf.Tensor:
        """The standard deviation of every value, [D]."""
        each = tf.exp(tf.convert_to_tensor(self.log_stddev))
        return tf.repeat(each, self._sizes)


def over_values(distribution: tfd.Distribution, event_size: int) -> tfd.Distribution:
    """Returns a given distribution as a distribution over vectors of D values.

    Args:
        distribution: Over one number (the same for every value), over D numbers as a
            batch, or over vectors of D.
        event_size: D.

    Raises:
        ValueError: If its shape is none of these.

    Example:
    ```python
    over_values(tfd.Laplace(0.0, 1.0), event_size=3).event_shape  # [3]
    ```
    """
    batch, event = list(distribution.batch_shape), list(distribution.event_shape)
    if batch == [] and event == []:
        return tfd.Sample(distribution, sample_shape=[event_size])
    if batch == [event_size] and event == []:
        return tfd.Independent(distribution, 1)
    if batch == [] and event == [event_size]:
        return distribution
    raise ValueError(
        f"Expected a prior over one number, or over D = {event_size}, got batch shape "
        f"{batch} and event shape {event}."
    )


def require_density(distribution: tfd.Distribution) -> None:
    """Refuses whole numbers and single points, whose probabilities are no densities.

    Parameters for which there is no density, such as a negative scale, are refused too.

    Args:
        distribution: Over one number, or over D.

    Raises:
        ValueError: If it has no density, as far as some draws show.
    """
    draws = np.asarray(distribution.sample(_NUM_DRAWS, seed=stateless_seed(0)))
    # Continuous distributions of very large numbers are whole in float32, too.
    is_smooth = distribution.reparameterization_type == tfd.FULLY_REPARAMETERIZED
    are_whole = not is_smooth and (draws == np.round(draws)).all()
    if are_whole or (draws == draws[0]).all():
        raise ValueError(
            "The prior has to be a density over real numbers, and draws of "
            f"{distribution} are {draws.ravel()[:3].tolist()}, ...: the KL to it has "
            "no meaning. Give a continuous one, such as `tfd.Laplace(0.0, 1.0)`."
        )
    if not np.isfinite(distribution.log_prob(draws)).any():
        raise ValueError(
            f"The prior {distribution} has no finite density even where its own draws "
            f"are, {draws.ravel()[:3].tolist()}, ...: the KL would be no number. Look "
            "at its parameters; a scale has to be above 0 and finite."
        )


def require_all_numbers(distribution: tfd.Distribution, is_from_file: bool) -> None:
    """Refuses densities over a part of the real numbers, such as the positive ones.

    Args:
        distribution: Over one number, or over D.
        is_from_file: Whether to warn instead. A model with such a prior may have been
            trained, if no draw left that part, and answers as well as others.

    Raises:
        ValueError: If it has a known end, and is of no file.
    """
    low, high = _ends(distribution)
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return
    message = (
        f"The prior {distribution} has a density from {np.min(low):.4g} to "
        f"{np.max(high):.4g} alone, and generated values may be any numbers: "
        "beyond, the KL is infinite or NaN. Give one over all real numbers; for "
        "values that should be positive, one around a positive number, such as "
        "`tfd.Normal(1.0, 0.5)`."
    )
    if not is_from_file:
        raise ValueError(message)
    warn_user(message)


def _ends(distribution) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value; those of vectors are mostly not known."""
    repeating = tfd.Independent | tfd.Sample | tfd.BatchReshape | tfd.BatchBroadcast
    while isinstance(distribution, repeating):
        distribution = distribution.distribution
    if distribution.event_shape.rank:
        return np.array(-np.inf), np.array(np.inf)
    low, high = support(distribution)
    return low.numpy(), high.numpy()


def serialize(distribution: tfd.Distribution | Trained | None) -> dict | None:
    """Turns a TFP distribution into a form that JSON can hold: class and parameters.

    Args:
        distribution: Of a class of `tfp.distributions`, with numbers and other such
            distributions as parameters; or `Trained`.

    Returns:
        A dictionary from which `deserialize` makes the same distribution.

    Raises:
        ValueError: If a file could not hold it: a custom class, or a parameter that is
            a variable, a bijector or a function.

    Example:
    ```python
    serialize(tfd.Laplace(0.0, 1.0))["distribution"]  # "Laplace"
    ```
    """
    if distribution is None:
        return None
    if isinstance(distribution, Trained):
        parameters = {"relative_stddev": float(distribution.relative_stddev)}
        return {"distribution": "Trained", "parameters": parameters}
    kind = type(distribution)
    if getattr(tfd, kind.__name__, None) is not kind:
        raise ValueError(
            f"A prior is saved with the model as its class in `tfp.distributions` and "
            f"its numbers, and {kind.__module__}.{kind.__name__} is no such class. "
            "Build the prior from those of TFP, such as `tfd.Laplace(0.0, 1.0)` or "
            "`tfd.MixtureSameFamily`."
        )
    return {
        "distribution": kind.__name__,
        "parameters": {
            name: _serialize_value(value, f"{kind.__name__}({name}=...)")
            for name, value in distribution.parameters.items()
            if value is not None
        },
    }


def _serialize_value(value, where: str):
    if isinstance(value, tfd.Distribution):
        return serialize(value)
    if isinstance(value, np.generic):
        # NumPy's float64 is a Python float, and would make the prior one of float64.
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, list | tuple):
        return [_serialize_value(item, where) for item in value]
    # Of TensorFlow's types, only eager tensors have known numbers; a variable would
    # neither be trained nor saved.
    if isinstance(value, np.ndarray | tf.Tensor):
        array = np.asarray(value.numpy() if isinstance(value, tf.Tensor) else value)
        if array.dtype.kind in "biuf":
            return array.tolist()
    raise ValueError(
        f"A prior is saved with the model as numbers, and {where} got "
        f"{type(value).__name__}, which a file cannot hold. Give numbers, arrays or "
        "other distributions; in place of a transformed distribution one that TFP has "
        "under a name of its own, such as `tfd.LogNormal`."
    )


def deserialize(config) -> tfd.Distribution | Trained | None:
    """The inverse of `serialize`; a distribution is returned as it is.

    Raises:
        ValueError: If it does not name a distribution.
    """
    if config is None or isinstance(config, tfd.Distribution | Trained):
        return config
    # A file may come from anybody, so it may name nothing but distributions.
    name = config.get("distribution") if isinstance(config, dict) else None
    if name == "Trained":
        return Trained(**config["parameters"])
    kind = getattr(tfd, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, tfd.Distribution)):
        raise ValueError(
            f"The prior of the file is {str(config)[:100]}, which is no distribution "
            "of `tfp.distributions`: the file is damaged, or of another program."
        )
    parameters = {
        name: _deserialize_value(value) for name, value in config["parameters"].items()
    }
    return kind(**parameters)


def _deserialize_value(value):
    if isinstance(value, dict):
        return deserialize(value)
    # A list of numbers is one parameter; a list of distributions is decoded one by one.
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [deserialize(item) for item in value]
    return value
