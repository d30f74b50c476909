"""Objects that are given where a model of this library is expected."""

import keras

from bhn_tf.models.predictive_model import PredictiveModel


def require_predictive_model(model) -> None:
    """Raises `TypeError` unless an argument is a model with draws and a likelihood.

    It says where a calibrated model or an estimator of `bhn_tf.sklearn` holds one, and
    how a Keras model becomes one.
    """
    if isinstance(model, PredictiveModel):
        return
    held = [
        name
        for name in ("model", "model_")
        if isinstance(getattr(model, name, None), PredictiveModel)
    ]
    advice = ""
    if held:
        advice = f" Give the model that it holds, its `{held[0]}`."
    elif isinstance(model, keras.Model):
        advice = (
            " `bhn_tf.from_keras` makes a Keras model Bayesian; "
            "`bhn_tf.baselines.Deterministic` takes it as it is."
        )
    raise TypeError(
        "Expected `model` to be a `BayesianHypernet` or a baseline, got "
        f"{type(model).__name__}.{advice}"
    )
