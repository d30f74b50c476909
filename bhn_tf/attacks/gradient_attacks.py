"""Adversarial inputs: small changes of x that make a classifier most wrong.

`fgsm` takes one step of the fast gradient sign method, `pgd` many small ones.
`gradient_sign` is the direction of both, for trying several step sizes with one
direction. They use only a model's differentiable `predictive`, which a
`BayesianHypernet`, a baseline or any other model may have.
"""

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.arguments import check_amount, check_count
from bhn_tf.attacks.loss_directions import LossDirection
from bhn_tf.random import stateless_seed


def fgsm(
    model,
    x,
    y,
    epsilon: float,
    num_samples: int = 1,
    clip: tuple[float, float] | None = (0.0, 1.0),
    seed: int | None = None,
    batch_size: int = 128,
):
    """Returns adversarial inputs of the fast gradient sign method.

    `x_adv = clip(x + ε · sign(∇ₓ -log p(y|x)))`, where p is the mean prediction over
    the draws (Goodfellow, Shlens and Szegedy, "Explaining and harnessing adversarial
    examples", ICLR 2015). More draws estimate the direction better, so the attack on
    a Bayesian model is stronger (paper, section "Stronger attack").

    Args:
        model: A classifier with `predictive(x, num_samples, seed)`; `x` is one array.
        x: Floats [rows, ...], array or tensor.
        y: True labels: integers [rows] or [rows, 1], or one-hot [rows, C]; likewise of
            pixels or tokens, whose losses are summed. As in `evaluate`, labels under a
            mask of Keras and those of `Categorical(ignore_class=)` do not count.
        epsilon: ε, the step, in the units of x, such as 8 / 255 for images in [0, 1].
        num_samples: S, draws of the gradient; 0 for the centre.
        clip: Lowest and highest value that x can have; `None` for no limits.
        seed: A non-negative integer for the same attack every time; `predict` makes
            the same draws from the same `num_samples` and seed.
        batch_size: Rows held in memory at once, with S networks each. Up to rounding,
            it does not change the attack.

    Returns:
        Inputs of the shape, dtype and kind (array or tensor) of `x`, none of them
        further than ε from it; `x` itself for ε = 0.

    Raises:
        ValueError: If inputs are not floats, not finite or out of the limits, labels
            do not fit, or the model is not a classifier with one input and one output.

    Example:
    ```python
    x_adv = bhn_tf.attacks.fgsm(model, x, y, epsilon=0.1, num_samples=32, seed=0)
    (model.predict(x_adv).argmax(axis=1) == y).mean()
    ```
    """
    values = _checked_inputs(x, clip)
    check_amount("epsilon", epsilon, may_be_zero=True)
    sign = gradient_sign(model, values, y, num_samples, seed, batch_size)
    return _like(x, _moved(values, sign, epsilon, clip))


def pgd(
    model,
    x,
    y,
    epsilon: float,
    step_size: float | None = None,
    num_steps: int = 10,
    num_samples: int = 1,
    clip: tuple[float, float] | None = (0.0, 1.0),
    random_start: bool = True,
    seed: int | None = None,
    batch_size: int = 128,
):
    """Returns adversarial inputs of projected gradient descent.

    It steps along the sign of the gradient and after each step projects onto the inputs
    within ε of x (Madry, Makelov, Schmidt, Tsipras and Vladu, "Towards deep learning
    models resistant to adversarial attacks", ICLR 2018). Every step makes new draws, so
    that even few draws average out over the steps.

    Args:
        model, x, y, epsilon, num_samples, clip, batch_size: As `fgsm`.
        step_size: Size of one step; by default 2.5 ε / `num_steps`, as in the
            reference.
        num_steps: Number of steps.
        random_start: Whether to begin at a random point within ε of x. Without it,
            one step of size ε is `fgsm`, and padding stays padding: `Masking` takes
            randomly moved padding for inputs.
        seed: A non-negative integer for the same attack every time. The first step
            makes the draws of `fgsm`, and each further one others.

    Returns:
        As `fgsm`.

    Raises:
        ValueError: As `fgsm`, or if the steps make no sense.

    Example:
    ```python
    x_adv = bhn_tf.attacks.pgd(model, x, y, epsilon=0.1, num_steps=20, seed=0)
    ```
    """
    values = _checked_inputs(x, clip)
    check_amount("epsilon", epsilon, may_be_zero=True)
    check_count("num_steps", num_steps, minimum=1)
    if step_size is None:
        step_size = 2.5 * epsilon / num_steps
    check_amount("step_size", step_size, may_be_zero=True)
    seed = _as_integer_seed(seed)
    attacked = values
    if random_start:
        noise = np.random.default_rng(seed).uniform(-1, 1, values.shape)
        attacked = _moved(values, noise.astype(values.dtype), epsilon, clip)
    direction = LossDirection(model, values, y, num_samples, batch_size)
    for seed_of_step in _seeds_of_steps(seed, num_steps):
        sign = direction.of(attacked, seed_of_step)
        attacked = _moved(attacked, sign, step_size, clip)
        attacked = _within(attacked, values, epsilon)
    return _like(x, attacked)


def gradient_sign(
    model, x, y, num_samples: int = 1, seed: int | None = None, batch_size: int = 128
) -> np.ndarray:
    """Returns the sign of the gradient of -log p(y|x) with respect to x.

    Args:
        model, x, y, num_samples, seed, batch_size: As `fgsm`.

    Returns:
        Array of the shape and dtype of `x` with the values -1, 0 and 1.

    Raises:
        ValueError: As `fgsm`.

    Example:
    ```python
    sign = bhn_tf.attacks.gradient_sign(model, x, y, num_samples=32, seed=0)
    for epsilon in (0.01, 0.1, 0.3):
        model.evaluate(np.clip(x + epsilon * sign, 0, 1), y)
    ```
    """
    values = _checked_inputs(x, clip=None)
    seed = _as_integer_seed(seed)
    return LossDirection(model, values, y, num_samples, batch_size).of(values, seed)


# -- the steps ----------------------------------------------------------------------


def _seeds_of_steps(seed: int, num_steps: int) -> list[tf.Tensor]:
    """The seed itself, as of `fgsm`, and then others that no other seed leads to."""
    first = stateless_seed(seed)
    others = tfp.random.split_seed(first, n=num_steps, salt="steps of pgd")
    return [first, *tf.unstack(others)[1:]]


def _moved(x, direction, size, clip):
    if size == 0:
        return x.copy()
    moved = x + x.dtype.type(size) * direction
    return moved if clip is None else np.clip(moved, *map(x.dtype.type, clip))


def _within(attacked, x, epsilon):
    if epsilon == 0:
        return x.copy()
    epsilon = x.dtype.type(epsilon)
    return np.clip(attacked, x - epsilon, x + epsilon)


def _like(x, values):
    return tf.constant(values) if tf.is_tensor(x) else values


# -- checks -------------------------------------------------------------------------


def _checked_inputs(x, clip) -> np.ndarray:
    if isinstance(x, dict | tuple):
        raise ValueError(
            f"Expected `x` to be one array, got a {type(x).__name__}: a model with "
            "several inputs cannot be attacked."
        )
    values = np.asarray(keras.ops.convert_to_numpy(x))
    if values.ndim < 2 or not values.size:
        raise ValueError(
            "Expected `x` to be an array [rows, ...] with at least one row, got a "
            f"{type(x).__name__} of shape {values.shape}."
        )
    if not np.issubdtype(values.dtype, np.floating):
        raise ValueError(
            f"`x` is of dtype {values.dtype}, which has no small steps. Give floats "
            "in the range that the model was trained on, such as "
            "`x.astype('float32') / 255`, and ε in the same units."
        )
    if not np.isfinite(values).all():
        raise ValueError("`x` has values that are NaN or infinite.")
    if clip is not None:
        _check_limits(values, clip)
    return values


def _check_limits(values, clip) -> None:
    is_pair = isinstance(clip, tuple | list) and len(clip) == 2
    are_numbers = is_pair and all(
        np.ndim(end) == 0 and np.asarray(end).dtype.kind in "biuf" for end in clip
    )
    if not are_numbers or not clip[0] < clip[1]:
        raise ValueError(
            "Expected `clip` to be the lowest and the highest value of x, such as "
            f"(0.0, 1.0), or None, got {clip!r}."
        )
    lowest, highest = values.min(), values.max()
    if lowest < clip[0] or highest > clip[1]:
        raise ValueError(
            f"`x` has values from {lowest:.4g} to {highest:.4g}, and `clip={clip}` "
            "would change them without any attack. Give the range that x can have, or "
            "`clip=None`, and ε in the same units."
        )


def _as_integer_seed(seed) -> int:
    """The seed itself, or one determined by `keras.utils.set_random_seed`."""
    if seed is None:
        return int(tf.random.uniform([], maxval=2**31 - 1, dtype=tf.int32))
    stateless_seed(seed)
    return int(seed)
