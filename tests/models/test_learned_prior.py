"""`prior_stddev="learned"`: empirical Bayes on the bound."""

import keras
import numpy as np
import pytest
from tensorflow_probability import distributions as tfd

import bhn_tf
from tests import networks

KINDS = ["learned", "learned_per_layer"]


def make_model(prior_stddev, **kwargs):
    model = networks.bayesian(
        hypernet="mean_field", prior_stddev=prior_stddev, num_examples=20, **kwargs
    )
    return networks.compiled(model, keras.optimizers.Adam(0.05))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_it_starts_at_one_and_comes_to_where_the_bound_is_greatest(kind):
    model = make_model(kind)
    np.testing.assert_array_equal(model.prior.stddev(), np.ones(8))
    log_stddev = model.learned_prior_stddev.log_stddev
    assert log_stddev.shape == (1 if kind == "learned" else 2,)
    assert any(v is log_stddev for v in model.trainable_variables)
    # For a fixed posterior, the best prior is known.
    mean = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 0.2, 0.1, -0.3], "float32")
    model.hypernet.affine.mean.assign(mean)
    model.hypernet.trainable = model.primary.trainable = False
    networks.compiled(model, keras.optimizers.Adam(0.1))
    x, y = networks.data(1500)
    model.num_examples = len(x)
    history = model.fit(x, y, epochs=1, verbose=0, batch_size=10).history
    networks.assert_identity(history, len(x))
    square = mean**2 + 0.1**2
    parts = [square] if kind == "learned" else [square[:5], square[5:]]
    expected = np.concatenate([np.full(len(p), np.sqrt(p.mean())) for p in parts])
    np.testing.assert_allclose(model.prior.stddev(), expected, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_trained_saved_and_shown(kind, tmp_path):
    model = make_model(kind)
    x, y = networks.data(20)
    model.fit(x, y, epochs=3, verbose=0)
    learned = np.asarray(model.prior.stddev())
    assert (learned != 1).all()
    assert model.prior_stddev == model.get_config()["prior_stddev"] == kind
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.prior.stddev(), learned)
    kl = [
        m.evaluate(x, y, seed=1, return_dict=True, verbose=0)["kl"]
        for m in (model, loaded)
    ]
    assert kl[0] == pytest.approx(kl[1], rel=1e-6)
    g, log_q = model.hypernet.sample_and_log_prob(8, seed=1)
    log_p = tfd.Normal(0.0, learned).log_prob(g).numpy().sum(axis=1)
    assert kl[0] == pytest.approx(np.mean(log_q - log_p), rel=1e-5)
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    shown = [line for line in lines if "(learned)" in line]
    assert f"prior_stddev={learned[0]:.3g} (learned)" in shown[0]
    assert f"prior_stddev={learned[-1]:.3g} (learned)" in shown[1]
    before = loaded.learned_prior_stddev.log_stddev.numpy()
    loaded.fit(x, y, verbose=0)
    assert (loaded.learned_prior_stddev.log_stddev.numpy() != before).all()


def test_from_keras_and_layers_without_random_values():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="relu", name="kept")(inputs)
    network = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    model = bhn_tf.from_keras(
        network, "mean_field", skip="kept", prior_stddev="learned_per_layer"
    )
    assert model.learned_prior_stddev.log_stddev.shape == (1,)
    plain = networks.bayesian(networks.plain(), prior_stddev="learned")
    x, y = networks.data(8)
    networks.compiled(plain).fit(x, y, verbose=0)
    assert not plain.learned_prior_stddev.weights
    plain.summary(print_fn=lambda *_, **__: None)


@pytest.mark.slow
def test_what_it_does_not_go_with_is_refused():
    with pytest.raises(ValueError, match="'learned_per_layer'\\], got 'learnt'"):
        make_model("learnt")
    with pytest.raises(ValueError, match="Leave one of them out"):
        make_model("learned", prior=tfd.Laplace(0.0, 1.0))
    with pytest.raises(ValueError, match="shrink to nothing"):
        make_model("learned", prior_loc="trained")
