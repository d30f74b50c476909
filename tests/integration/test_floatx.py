"""Where Keras computes in float64, so does all that stands on it."""

import pytest

SCRIPT = """
import sys
import keras
import numpy as np
import tensorflow as tf
keras.config.set_floatx("float64")
import bhn_tf
from bhn_tf.hypernets import RealNVP
from tests import networks

x, y = networks.data(20)
x = x.astype("float64")
flow = RealNVP(num_layers=2, hidden_units=(4,))
baseline = bhn_tf.baselines.Deterministic(networks.plain())
for number, model in enumerate([networks.bayesian(hypernet=flow), baseline]):
    model.compile("adam", jit_compile=False)
    history = model.fit(x, y, validation_split=0.2, verbose=0).history
    assert np.isfinite(history["val_loss"]).all()
    answers = model.predict_uncertainty(x, seed=1, verbose=0)
    assert {values.dtype for values in answers.values()} == {np.dtype("float64")}
    path = f"{sys.argv[1]}/{number}.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    expected = model.predict(x, num_samples=0, verbose=0)
    found = loaded.predict(x, num_samples=0, verbose=0)
    np.testing.assert_array_equal(found, expected)
    served = tf.saved_model.load(model.export(f"{sys.argv[1]}/{number}"))
    answer = served.signatures["deterministic"](tf.constant(x))
    np.testing.assert_allclose(answer["mean"], expected, rtol=1e-12)
"""


@pytest.mark.slow
def test_everything_is_in_float64(run_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run_python(script, tmp_path)()
