r"""Whether the posterior is as wide as the bound asks for.

The last step of every hypernet is `g = μ + σ ⊙ z`. The derivative of the negative bound
with respect to log σ_i is

    E_q[(g_i - μ_i) · ∂_i(N · nll(g) - log p(g))] - 1,

with nll(g) the mean over examples, so that at the optimum the expectation w_i is 1. For
a Gaussian posterior with precision `Λ_i = N ∂²nll + 1/s²` it is `σ_i² Λ_i`: the square
of the ratio of q's width to that which the bound asks for. Far below 1 the posterior is
surer than data and prior allow, far above 1 less sure than they ask for.
"""

import numpy as np
import tensorflow as tf

from bhn_tf.diagnosis.findings import Estimate, Finding, mean_of
from bhn_tf.diagnosis.measured_rows import in_batches
from bhn_tf.random import stateless_seed

# Smaller factors have many causes, such as one more epoch.
_FAR = 3.0


def relative_variances(model, rows, num_pairs: int, seed: int) -> np.ndarray:
    """Returns w of each generated value, from pairs of noise and its negative.

    Within a pair, the part of the gradient that does not depend on the noise cancels.

    Args:
        model: A `BayesianHypernet` whose N is known.
        rows: `(x, y)` of tensors.
        num_pairs: Pairs of draws.
        seed: Seed of the noise.

    Returns:
        [pairs, D]; the mean over pairs estimates w.
    """
    noise = tf.random.stateless_normal(
        [num_pairs, model.num_random], stateless_seed(seed)
    )
    values, _ = model.hypernet.transform(tf.concat([noise, -noise], axis=0))

    @tf.function(reduce_retracing=True, autograph=False)
    def gradient_of_batch(batch):
        with tf.GradientTape() as tape:
            tape.watch(values)
            log_prob = tf.reduce_sum(model.answers.log_probs(batch, values))
        return -tf.cast(tape.gradient(log_prob, values), tf.float32)

    num_rows, nll_gradient = 0, tf.zeros_like(values)
    for batch in in_batches(model, rows, 2 * num_pairs):
        nll_gradient += gradient_of_batch(batch)
        num_rows += int(tf.nest.flatten(batch)[0].shape[0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        log_prior = model.prior.log_prob(values)
    gradient = model.num_examples / num_rows * nll_gradient
    gradient -= tape.gradient(log_prior, values)
    terms = (values - tf.convert_to_tensor(model.hypernet.affine.mean)) * gradient
    return tf.reduce_mean(tf.reshape(terms, [2, num_pairs, -1]), axis=0).numpy()


def width_of(relative: np.ndarray) -> Estimate:
    """Returns the ratio of a layer's width to that which the bound asks for.

    Args:
        relative: The relative variances of its values, [pairs, values].

    Example:
        >>> width_of(np.full([4, 2], 0.25)).value
        0.5
    """
    found = mean_of(relative.mean(axis=1))
    return Estimate(*np.sqrt(np.maximum(found, 0.0)).tolist())


def findings(layer: str, width: Estimate, num_examples: int) -> list[Finding]:
    """Returns a finding if a layer is too sure, or not yet sure enough."""
    if width.high < 1 / _FAR:
        times = "more than 1,000" if width.value < 1e-3 else f"{1 / width.value:.3g}"
        return [
            Finding(
                "too_sure",
                layer,
                "warning",
                width.value,
                f"The posterior is {times} times narrower than {num_examples:,} such "
                "examples and the prior allow.",
                "Train longer, or from a larger `initial_stddev` of the hypernet: "
                "widths move slowest. A large N, a `kl_weight` below 1 or "
                "`loss_weights` above 1 make it so, too.",
            )
        ]
    if width.low > _FAR:
        return [
            Finding(
                "too_wide",
                layer,
                "warning",
                width.value,
                f"The posterior is {width.value:.3g} times wider than the bound at "
                f"N = {num_examples:,} asks for: these data tell more than it has "
                "learned.",
                "Train longer, or from a smaller `initial_stddev` of the hypernet; a "
                "small N or a `kl_weight` above 1 makes it so, too.",
            )
        ]
    return []
