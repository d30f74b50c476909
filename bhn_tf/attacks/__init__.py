"""Adversarial inputs: small changes of x that make a classifier most wrong."""

from bhn_tf.attacks.gradient_attacks import fgsm, gradient_sign, pgd

__all__ = ["fgsm", "gradient_sign", "pgd"]
