"""Data sets as arrays: images in [0, 1] and integer labels, without network access."""

from bhn_tf.data.images import as_images
from bhn_tf.data.noise import gaussian, uniform
from bhn_tf.data.registry import load
from bhn_tf.data.toy import blundell, blundell_noise_free

__all__ = [
    "as_images",
    "blundell",
    "blundell_noise_free",
    "gaussian",
    "load",
    "uniform",
]
