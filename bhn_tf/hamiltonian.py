"""Hamiltonian Monte Carlo over a hypernet's generated values, as a reference.

The chains are not limited to the hypernet's family of distributions: given time, their
draws follow the exact posterior of the same values under the same prior, likelihood and
fixed weights. Each draw costs hundreds of gradients over all data, so this is a
yardstick for small networks.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf import tensorflow_adapter
from bhn_tf.arguments import check_count
from bhn_tf.data_feeds import feed_of, labelled_rows
from bhn_tf.models.targets import require_units
from bhn_tf.random import stateless_seed

_STEPS_AT_ONCE = 25
_DRAWS_FOR_SPREAD = 1_000


class HamiltonianDraws(NamedTuple):
    """Draws of Markov chains, and whether they may be trusted.

    Attributes:
        draws: g [S, D], one chain after the other.
        num_chains: Number of chains, of equal length.
        acceptance_rate: Mean probability of acceptance, which should be near 0.8.
        divergences: Share of the steps on which the simulated motion diverged; more
            than a few in a thousand mean that a narrow region was missed.
    """

    draws: np.ndarray
    num_chains: int
    acceptance_rate: float
    divergences: float

    @property
    def potential_scale_reduction(self) -> np.ndarray:
        """R-hat of every value, [D]; see the function of the same name."""
        return potential_scale_reduction(self.draws, self.num_chains)

    @property
    def effective_sample_size(self) -> np.ndarray:
        """How many independent draws would give the mean as precisely, [D]."""
        chains = _steps_first(self.draws, self.num_chains)
        return tfp.mcmc.effective_sample_size(chains, cross_chain_dims=1).numpy()


def potential_scale_reduction(values, num_chains: int) -> np.ndarray:
    """Gelman and Rubin's R-hat with split chains: 1 if all chains agree.

    Weights of a network have symmetries, and chains in mirrored modes disagree on
    weights but not on the network's outputs. For predictions, check the R-hat of the
    outputs under the draws.

    Args:
        values: [S, ...], one chain after the other, of draws or of any function of
            them.
        num_chains: Number of chains, at least 2.

    Returns:
        Array of the shape [...]; below 1.05 is commonly accepted.

    Raises:
        ValueError: If S is not a multiple of the number of chains.

    Example:
    ```python
    outputs = bhn_tf.hamiltonian.samples(model, x, found.draws)  # [rows, S, C]
    potential_scale_reduction(np.moveaxis(outputs, 1, 0), found.num_chains).max()
    ```
    """
    check_count("num_chains", num_chains, minimum=2)
    chains = _steps_first(values, num_chains)
    found = tfp.mcmc.potential_scale_reduction(
        chains, independent_chain_ndims=1, split_chains=True
    ).numpy()
    # Of what never varies, such as a probability of exactly 1, both variances are 0.
    return np.where(np.ptp(chains, axis=(0, 1)) == 0, np.ones_like(found), found)[()]


def _steps_first(values, num_chains):
    """Reshapes [S, ...] to [steps, chains, ...]."""
    values = np.asarray(values)
    if len(values) % num_chains:
        raise ValueError(
            f"{len(values)} draws cannot be of {num_chains} chains of equal length."
        )
    return np.moveaxis(values.reshape(num_chains, -1, *values.shape[1:]), 0, 1)


def hamiltonian_monte_carlo(
    model,
    x,
    y=None,
    num_samples: int = 1000,
    num_burnin_steps: int = 500,
    num_chains: int = 4,
    seed: int | None = None,
    *,
    max_tree_depth: int = 8,
    jit_compile: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> HamiltonianDraws:
    """Draws g from its exact posterior with the No-U-Turn sampler.

    The posterior is that of the model: its prior, its likelihood with its current
    noise, and its other weights (v and b) held fixed. Chains start at draws of the
    hypernet, as in the paper's experiments. During the first half of the burn-in they
    move in coordinates in which the prior has unit spread, afterwards in coordinates in
    which their own draws so far had it. (Scaled by the hypernet's draws, whose spread
    may differ from the posterior's, they would diverge more often.) None of this
    changes what they converge to.

    Args:
        model: A built `BayesianHypernet` with random values; it is not changed.
        x, y: All training data, as arrays.
        num_samples: S, draws of all chains together, a multiple of `num_chains`.
        num_burnin_steps: Discarded steps of each chain; the step size is adapted during
            four fifths of each half (dual averaging).
        num_chains: Number of chains, moved in parallel.
        seed: A non-negative integer for the same draws every time.
        max_tree_depth: A step takes up to 2 to this power gradients.
        jit_compile: Whether to compile with XLA, which takes some twenty seconds and
            then is several times as fast.
        progress: Called with the number of steps done and of all steps.

    Returns:
        The draws and their diagnostics.

    Raises:
        ValueError: If the model has nothing random, a number makes no sense or the
            data do not fit.

    Example:
    ```python
    found = bhn_tf.hamiltonian.hamiltonian_monte_carlo(
        model, x, y, num_samples=16, num_burnin_steps=4, jit_compile=False
    )  # For an answer to trust: thousands of samples.
    print(found.potential_scale_reduction.max(), found.acceptance_rate)
    answers = bhn_tf.hamiltonian.predict_uncertainty(model, x_new, found.draws)
    ```

    Reference: Hoffman and Gelman, "The No-U-Turn Sampler", JMLR 2014.
    """
    _check_numbers(num_samples, num_burnin_steps, num_chains, max_tree_depth)
    # Baselines have no generated values at all.
    if not getattr(model, "num_random", 0):
        raise ValueError("The model has nothing random (D = 0) to be drawn.")
    tensorflow_adapter.require_threads()
    reason = "every step of a chain looks at all of them"
    labelled_rows(x, y, "hamiltonian_monte_carlo(model, x, y)", reason)
    model.check_data(x, y)
    require_units(model.likelihood)
    half = -(-num_burnin_steps // 2)
    num_kept = num_samples // num_chains

    def report(done):
        if progress is not None:
            progress(done, 2 * half + num_kept)

    density = log_joint(model, x, y)
    stddev = tf.Variable(_spread(model.prior))
    sampler = _adaptive_sampler(density, stddev, max_tree_depth, int(0.8 * half))
    walk = _compiled_walk(sampler, stddev, jit_compile)
    seeds = tf.unstack(tfp.random.split_seed(stateless_seed(seed), n=2))
    start = tf.constant(model.sample_scales(num_chains, seed))
    begun = walk(start, half, seeds[0], report)["values"]
    # Leaves out the earliest steps, which still lead away from the starting points.
    stddev.assign(begun[half // 2 :].std(axis=(0, 1)))
    start = tf.constant(begun[-1])
    found = walk(start, half + num_kept, seeds[1], lambda done: report(half + done))
    kept = {name: values[half:] for name, values in found.items()}
    return HamiltonianDraws(
        np.moveaxis(kept["values"], 1, 0).reshape(num_samples, -1),
        num_chains,
        float(np.mean(np.minimum(np.exp(kept["log_accept_ratio"]), 1.0))),
        float(np.mean(kept["has_divergence"])),
    )


def _check_numbers(num_samples, num_burnin_steps, num_chains, max_tree_depth):
    check_count("num_chains", num_chains, minimum=2)
    check_count("num_samples", num_samples, minimum=4 * num_chains)
    check_count("num_burnin_steps", num_burnin_steps, minimum=1)
    check_count("max_tree_depth", max_tree_depth, minimum=1)
    if num_samples % num_chains:
        raise ValueError(
            f"Expected `num_samples` to be a multiple of `num_chains` = {num_chains}, "
            f"got {num_samples}."
        )


def _spread(prior):
    """A robust standard deviation of each value, [D], as a Cauchy prior has none."""
    draws = prior.sample(_DRAWS_FOR_SPREAD, seed=stateless_seed(0)).numpy()
    return tf.constant(scipy.stats.median_abs_deviation(draws, scale="normal"))


def log_joint(model, x, y) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the log-density of the chains, `log p(y | x, g) + log p(g)`.

    It is neither clipped nor weighted by `loss_weights`.

    Args:
        model: A built `BayesianHypernet`; its hypernet plays no part.
        x, y: All training data, as arrays.

    Returns:
        A differentiable function of g [S, D] that returns [S].

    Example:
    ```python
    log_joint(model, x, y)(model.sample_scales(10))  # of ten draws
    ```
    """
    feed = feed_of(x, y).as_tensors()
    x, y = feed.x, feed.y

    def of_one(values):
        raw = model(x, scales=values, training=False)
        outputs = model.raw_outputs
        mask = outputs.for_likelihood(outputs.masks_of(raw))
        return tf.reduce_sum(model.likelihood.measured_log_prob(y, raw, mask=mask))

    def of_all(values):
        # A network in float64 gives a likelihood in float64.
        log_likelihood = tf.cast(tf.vectorized_map(of_one, values), values.dtype)
        return log_likelihood + model.prior.log_prob(values)

    return of_all


def _adaptive_sampler(density, stddev, max_tree_depth, num_adaptation_steps):
    """The No-U-Turn sampler of g in units of `stddev`, with adaptive step size."""
    return tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(
            lambda scaled: density(stddev * scaled),
            step_size=0.1,
            max_tree_depth=max_tree_depth,
        ),
        num_adaptation_steps=num_adaptation_steps,
        target_accept_prob=0.8,
    )


def _compiled_steps(sampler, jit_compile):
    """A compiled function that advances the chains by `_STEPS_AT_ONCE` steps."""

    def trace(_, results):
        inner = results.inner_results
        return {
            "log_accept_ratio": inner.log_accept_ratio,
            "has_divergence": inner.has_divergence,
        }

    @tf.function(jit_compile=jit_compile, autograph=False)
    def take_steps(state, results, seed):
        return tfp.mcmc.sample_chain(
            _STEPS_AT_ONCE,
            state,
            kernel=sampler,
            previous_kernel_results=results,
            num_burnin_steps=0,
            trace_fn=trace,
            return_final_kernel_results=True,
            seed=seed,
        )

    return take_steps


def _compiled_walk(sampler, stddev, jit_compile):
    """A function that advances the chains from g [chains, D] by any number of steps.

    It returns a trace of the steps, in which "values" is g [steps, chains, D].
    """
    take_steps = _compiled_steps(sampler, jit_compile)

    def walk(values, num_steps, seed, report):
        state = values / stddev
        results, kept = sampler.bootstrap_results(state), []
        for done in range(0, num_steps, _STEPS_AT_ONCE):
            seed, now = tf.unstack(tfp.random.split_seed(seed, n=2))
            states, traced, results = take_steps(state, results, now)
            state = states[-1]
            kept.append({"values": states * stddev, **traced})
            report(min(done + _STEPS_AT_ONCE, num_steps))
        return {
            name: np.concatenate([block[name].numpy() for block in kept])[:num_steps]
            for name in kept[0]
        }

    return walk


def samples(model, x, draws):
    """Returns the mean of y under each given draw, as `model.predict_samples` does.

    Args:
        model: A built `BayesianHypernet`.
        x: Inputs, rows first.
        draws: g [S, D].

    Returns:
        Array [rows, S, C], or for several outputs a structure of them.
    """
    return _answer(model, model.answers.samples, x, draws)


def predict_uncertainty(model, x, draws) -> dict:
    """Returns the predictive mean and every score under given draws.

    Args:
        model: A built `BayesianHypernet`; its hypernet plays no part.
        x: Inputs, rows first.
        draws: g [S, D], such as those of Hamiltonian Monte Carlo.

    Returns:
        What `model.predict_uncertainty` returns.
    """
    return _answer(model, model.answers.uncertainty, x, draws)


def _answer(model, function, x, draws):
    tensorflow_adapter.require_threads()
    draws = tf.convert_to_tensor(draws, tf.float32)
    if draws.shape.rank != 2 or draws.shape[1] != model.num_random:
        raise ValueError(
            f"Expected `draws` of shape [S, {model.num_random}], as many values as "
            f"the model generates, got {draws.shape}."
        )
    # Outside a graph, the loop over draws would take a hundred times as long.
    compiled = tf.function(function, autograph=False)
    answers = compiled(feed_of(x).as_tensors().x, draws)
    return keras.tree.map_structure(lambda tensor: tensor.numpy(), answers)
