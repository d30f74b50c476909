"""Recalibration of averaged probabilities by one number.

Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks" (2017),
applied to the posterior-predictive mean: `p_c^(1/T) / Σ p^(1/T)`.
"""

import math

import numpy as np
import scipy.optimize
import tensorflow as tf

from bhn_tf.two_classes import as_two_classes

# T from 1 / 50 to 50.
_WIDEST = math.log(50.0)


def tempered(probabilities, temperature) -> tf.Tensor:
    """Returns probabilities at a temperature; above 1, they become less sure.

    Args:
        probabilities: [..., C]; C = 1 is the probability of class 1 of two.
        temperature: T, a positive number.

    Returns:
        [..., C].

    Example:
        >>> tempered([[0.8, 0.2]], 1.0).numpy().round(4).tolist()
        [[0.800000011920929, 0.20000000298023224]]
    """
    p = tf.convert_to_tensor(probabilities)
    scaled = tf.nn.softmax(_log(as_two_classes(p)) / tf.cast(temperature, p.dtype))
    return scaled[..., 1:] if p.shape[-1] == 1 else scaled


def fit_temperature(probabilities, classes) -> float:
    """Returns the temperature with the highest likelihood.

    Args:
        probabilities: [n, C], C ≥ 2.
        classes: Class numbers [n].

    Example:
        >>> sure = np.array([[0.99, 0.01]] * 4)
        >>> fit_temperature(sure, [0, 0, 0, 1]) > 1
        True
    """
    log_p = _log(np.asarray(probabilities, "float64")).numpy()
    rows = np.arange(len(log_p))

    def nll(log_temperature):
        logits = log_p / math.exp(log_temperature)
        return np.mean(np.logaddexp.reduce(logits, axis=1) - logits[rows, classes])

    found = scipy.optimize.minimize_scalar(
        nll, bounds=(-_WIDEST, _WIDEST), method="bounded", options={"xatol": 1e-6}
    )
    return math.exp(found.x)


def _log(p):
    """log p, finite even where a softmax has rounded to 0."""
    return tf.math.log(tf.maximum(p, tf.constant(1.2e-38, p.dtype)))
