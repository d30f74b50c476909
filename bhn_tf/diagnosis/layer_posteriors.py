"""The posterior of each layer, compared with the prior."""

import dataclasses

import numpy as np

from bhn_tf.diagnosis.findings import Estimate, Finding, mean_of
from bhn_tf.diagnosis.widths import width_of
from bhn_tf.networks.paths import layer_paths
from bhn_tf.random import stateless_seed

# In nats per value: the KL if the standard deviation is about 0.8 times the prior's.
_COLLAPSED_KL = 0.05
# In nats per value: what a correlation of 0.14 of each value with the next would add.
_IDLE_FLOW = 0.01
# Numbers held at a time.
_MOST_NUMBERS = 2 * 10**7
_DRAWS_OF_PRIOR = 400


@dataclasses.dataclass(frozen=True)
class LayerPosterior:
    """What q says about the values of one layer.

    Attributes:
        name: Path of the layer.
        num_values: Its share of D.
        stddev: Root mean square of its values' standard deviations under q.
        prior_stddev: The same under the prior.
        kl: KL from the prior of Gaussians with the values' means and standard
            deviations, in nats, summed over the values.
        width: Ratio of its width to that which the bound asks for; see `widths`.
    """

    name: str
    num_values: int
    stddev: float
    prior_stddev: float
    kl: float
    width: Estimate

    @property
    def kl_per_value(self) -> float:
        """The KL per value, in nats."""
        return self.kl / self.num_values


def draws_of(model, seed: int):
    """Returns as many draws as memory allows, and log q of each: [S, D] and [S]."""
    num_draws = int(np.clip(_MOST_NUMBERS // model.num_random, 32, 2000))
    draws = model.posterior.draw(num_draws, seed)
    return draws.values.numpy().astype("float64"), draws.log_prob.numpy()


def layer_posteriors(model, draws, relative) -> list[LayerPosterior]:
    """Returns the posterior of each layer with generated values, in the order of g.

    Args:
        model: A `BayesianHypernet`.
        draws: [S, D].
        relative: From `widths.relative_variances`, [pairs, D].
    """
    mean, stddev = draws.mean(axis=0), draws.std(axis=0)
    prior_mean, prior_stddev = _moments_of_prior(model.prior)
    ratio = np.maximum(stddev / prior_stddev, np.finfo("float32").tiny)
    distance = (mean - prior_mean) / prior_stddev
    kl = (ratio**2 + distance**2 - 1) / 2 - np.log(ratio)
    arrays = [
        model.posterior.by_layer(each) for each in (stddev, prior_stddev, kl, relative)
    ]
    paths = layer_paths(model.primary)
    return [
        LayerPosterior(
            paths[layer],
            len(each),
            _root_mean_square(each),
            _root_mean_square(of_prior),
            float(of_kl.sum()),
            width_of(of_width),
        )
        for layer, each, of_prior, of_kl, of_width in zip(
            model.posterior.layers, *arrays, strict=True
        )
        if len(each)
    ]


def _root_mean_square(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _moments_of_prior(prior):
    """Mean and standard deviation, or robust ones from quantiles if it has none."""
    try:
        moments = np.asarray(prior.mean()), np.asarray(prior.stddev())
        if np.isfinite(moments).all():
            return moments
    except NotImplementedError:
        pass
    draws = prior.sample(_DRAWS_OF_PRIOR, seed=stateless_seed(0)).numpy()
    low, middle, high = np.quantile(draws, [0.1587, 0.5, 0.8413], axis=0)
    return middle, (high - low) / 2


def total_correlation(draws: np.ndarray, log_prob: np.ndarray) -> Estimate:
    """Returns how far q is from independent Gaussians of its own moments, in nats.

    `E_q[log q(g) - Σ_i log N(g_i; m_i, s_i²)]` is 0 for a mean field, and bounds what a
    flow's dependence and shape can gain for the bound. Moments fitted to S draws favour
    the Gaussians by D / S on average, which is added.

    Args:
        draws: [S, D].
        log_prob: log q of each, [S].

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(2000, 1))
        >>> log_prob = -0.5 * (noise[:, 0] ** 2 + np.log(2 * np.pi))
        >>> abs(total_correlation(noise, log_prob).value) < 0.005
        True
    """
    num_draws, size = draws.shape
    stddev = np.maximum(draws.std(axis=0), np.finfo("float32").tiny)
    z = (draws - draws.mean(axis=0)) / stddev
    of_gaussians = -0.5 * (z**2 + np.log(2 * np.pi)) - np.log(stddev)
    found = mean_of(log_prob - of_gaussians.sum(axis=1))
    return Estimate(*(number + size / num_draws for number in found))


def collapsed(layer: LayerPosterior) -> list[Finding]:
    """Returns a finding if the posterior of a layer is its prior."""
    if layer.kl_per_value >= _COLLAPSED_KL:
        return []
    return [
        Finding(
            "collapsed",
            layer.name,
            "warning",
            layer.kl_per_value,
            f"The posterior is the prior: {layer.kl_per_value:.2g} nats a value, with "
            f"a standard deviation of {layer.stddev:.3g} and the prior's of "
            f"{layer.prior_stddev:.3g}. The draws of this layer are noise that "
            "training has told nothing.",
            "Begin with `callbacks.KLAnnealing(start=0.0)` and a smaller "
            "`initial_stddev` of the hypernet, and train longer. N that is too small "
            "and a batch normalisation behind the layer do this, too.",
        )
    ]


def idle_flow(correlation: Estimate, model) -> list[Finding]:
    """Returns a finding if a flow adds nothing to a mean field."""
    if correlation.high >= _IDLE_FLOW * model.num_random:
        return []
    name = type(model.hypernet).__name__
    return [
        Finding(
            "idle_flow",
            None,
            "note",
            correlation.value,
            f"The {name} is within {max(correlation.high, 0.0):.2g} nats of "
            f"independent Gaussians, over D = {model.num_random:,} values: it adds "
            "nothing over a mean field.",
            "Take `hypernet='mean_field'`, which is cheaper, or train longer: a flow "
            "begins near the identity. Values that can be exchanged for each other, as "
            "with `random='rank_one'`, give it more to say.",
        )
    ]
