"""A model's settings of its prior, and the prior over D values that follows."""

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bhn_tf import priors
from bhn_tf.arguments import fit_float32


class PriorSettings:
    """The prior p(g) of a model.

    Args:
        stddev: Standard deviation of the Gaussian prior, or a key of `priors.LEARNED`.
        loc: Mean of the prior, a number or D numbers; `None` is zero; "trained" means
            `priors.Trained(stddev)`; "unit_inputs" is 1 for scales of inputs, which
            leaves inputs as they are, and 0 for all else.
        prior: Another prior, a TFP distribution over one number or over D, or
            `priors.Trained`; `stddev` and `loc` must then have their defaults.

    Attributes:
        learned: The `priors.LearnedStddev`; `None` for a fixed prior.
    """

    def __init__(self, stddev, loc, prior):
        self._stddev = _checked_stddev(stddev)
        # A variable, so that it is not compiled in as a constant.
        self._fixed_stddev = tf.Variable(1.0, trainable=False, dtype=tf.float32)
        self.loc = priors.checked_loc(loc)
        if not isinstance(prior, tfd.Distribution | priors.Trained | dict | None):
            raise ValueError(
                "Expected `prior` to be a TFP distribution, such as "
                f"`tfd.Laplace(0.0, 1.0)`, or `bhn_tf.priors.Trained`, got {prior!r}. "
                "Of the Gaussian prior, give `prior_stddev` and `prior_loc`."
            )
        self._is_from_file = isinstance(prior, dict)
        # Saved and loaded once: a prior that cannot be saved fails before any training.
        self.given = priors.deserialize(priors.serialize(priors.deserialize(prior)))
        self._refuse_others_beside_given()
        self.learned: priors.LearnedStddev | None = None
        if isinstance(self._stddev, str):
            self._refuse_to_learn_around_trained()
            self.learned = priors.LearnedStddev(priors.LEARNED[self._stddev])
        else:
            self._fixed_stddev.assign(self._stddev)
        self._prior = self.given
        if prior is None and self.loc == "trained":
            self._prior = priors.Trained(self._stddev)
        self._around_trained = None
        self._event_size = None
        self._unit_inputs: np.ndarray | None = None

    def _refuse_others_beside_given(self):
        if self.given is not None and (self.stddev, self.loc) != (1.0, None):
            raise ValueError(
                f"`prior_stddev={self.stddev!r}` and `prior_loc={self.loc!r}` are of "
                f"the Gaussian prior, and `prior` gives another one, {self.given}. "
                "Leave one of them out."
            )

    def _refuse_to_learn_around_trained(self):
        if self.loc == "trained":
            raise ValueError(
                f"`prior_stddev={self.stddev!r}` around `prior_loc='trained'` would "
                "shrink to nothing, and the posterior with it: without a width there, "
                "the KL is zero. Give a number, such as `prior_stddev=0.1`, relative "
                "to the size of the values."
            )

    def settle(
        self,
        values: list[np.ndarray],
        layer_sizes: list[int],
        are_input_scales: list[bool],
    ) -> None:
        """Fixes the prior of the generated values; see `Bound.set_values`."""
        self._event_size = sum(each.size for each in values)
        if not self._event_size:
            return
        sizes = [each.size for each in values]
        self._unit_inputs = np.repeat(np.asarray(are_input_scales, "float32"), sizes)
        if isinstance(self._prior, priors.Trained):
            self._around_trained = tf.Variable(
                self._prior.around(values), trainable=False, dtype=tf.float32
            )
        if self.learned is not None:
            self.learned.build_for(layer_sizes)
        _ = self.distribution
        if isinstance(self.given, tfd.Distribution):
            # As it is given: a prior over one number has no need of draws of D.
            priors.require_density(self.given)
            priors.require_all_numbers(self.given, self._is_from_file)

    @property
    def distribution(self) -> tfd.Distribution:
        """p(g) as a TFP distribution with event shape [D]."""
        if self._around_trained is not None:
            loc, stddev = tf.unstack(self._around_trained)
            return tfd.Independent(tfd.Normal(loc, stddev), 1)
        if self._prior is not None:
            return priors.over_values(self._prior, self._event_size)
        if self.learned is not None:
            stddev = self.learned.stddev
        else:
            stddev = tf.convert_to_tensor(self._fixed_stddev)
        loc = self._unit_inputs if self.loc == "unit_inputs" else self.loc
        return priors.gaussian(self._event_size, loc, stddev)

    @property
    def stddev(self) -> float | str:
        """Standard deviation of the Gaussian prior as it was given, or set since."""
        return self._stddev

    @stddev.setter
    def stddev(self, value: float):
        if self._prior is not None or self.learned is not None:
            raise ValueError(
                f"`prior_stddev={value!r}` is that of a Gaussian prior around numbers, "
                "and this model has another prior, or learns it: make a new model with "
                "the prior you want."
            )
        if isinstance(value, str):
            raise ValueError(
                f"`prior_stddev={value!r}` has to be given when the model is made: "
                "what is learned is one of its weights."
            )
        self._stddev = _checked_stddev(value)
        self._fixed_stddev.assign(self._stddev)

    def get_config(self) -> dict:
        """Returns the prior as the model's arguments give it, and if it is frozen."""
        return {
            "prior_stddev": self.stddev,
            "prior_loc": self.loc,
            "is_prior_frozen": self.learned is not None and not self.learned.trainable,
            "prior": priors.serialize(self.given),
        }

    def save_to(self, store) -> None:
        """Saves what a `priors.Trained` has become, [2, D], in a file of variables."""
        if self._around_trained is not None:
            store["prior_around_trained"] = self._around_trained.numpy()

    def load_from(self, store) -> None:
        """Loads what `save_to` has saved."""
        if self._around_trained is not None:
            self._around_trained.assign(np.asarray(store["prior_around_trained"]))


def _checked_stddev(stddev) -> float | str:
    if isinstance(stddev, str) and stddev in priors.LEARNED:
        return stddev
    is_several = np.ndim(stddev) > 0
    is_one = not (is_several or isinstance(stddev, str | None))
    if not (is_one and stddev > 0 and fit_float32(stddev)):
        several = " For one each, give `prior=tfd.Normal(0.0, stddevs)`."
        raise ValueError(
            "Expected `prior_stddev` to be a positive number, or one of "
            f"{list(priors.LEARNED)}, got {stddev!r}." + several * is_several
        )
    with np.errstate(divide="ignore", over="ignore"):
        precision = np.float32(1.0) / np.float32(stddev) ** 2
    if not np.isfinite(precision):
        raise ValueError(
            f"`prior_stddev={stddev!r}` is so small that its square vanishes "
            "in float32: the KL would be infinite. Give a larger one, or leave "
            "layers deterministic with `random='none'`."
        )
    return float(stddev)
