"""Any distribution of TFP, made by a function of the raw outputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Distribution

tfd = tfp.distributions
# Most functions here are written where they are used.
pytestmark = pytest.mark.filterwarnings("ignore:.*is not registered")
RAW = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")


def test_several_numbers_of_one_event_are_judged_together():
    """Two correlated targets: the elements are rows, labels have the event's shape."""
    factor = np.array([[1.0, 0.0], [0.8, 0.6]], "float32")
    likelihood = Distribution(lambda raw: tfd.MultivariateNormalTriL(raw, factor))
    assert likelihood.element_shape((None, 2)) == (None,)
    y = RAW[::-1].copy()
    likelihood.check_labels(y, (None, 2))
    expected = [
        stats.multivariate_normal(row, factor @ factor.T).logpdf(label)
        for row, label in zip(RAW, y, strict=True)
    ]
    np.testing.assert_allclose(likelihood.log_prob(y, RAW), expected, rtol=1e-5)
    summary = likelihood.summarize(np.stack([RAW, RAW + 1]))
    np.testing.assert_allclose(summary["mean"], RAW + 0.5, rtol=1e-5)
    np.testing.assert_allclose(summary["std"], np.sqrt(1.25), rtol=1e-5)
    # With weight 0, labels that a normal cannot have.
    y[2] = np.nan
    weighted = likelihood.log_prob(y, RAW, weight=[1, 1, 0, 1, 1])
    np.testing.assert_allclose(np.delete(weighted, 2), np.delete(expected, 2), 1e-5)
    with pytest.raises(ValueError, match="mean, variance and CDF"):
        likelihood.interval(RAW[None], 0.9)


VARIABLES = {
    "tensorflow": tf.Variable(1.0),
    "fixed": tf.Variable(1.0, trainable=False),
    "keras": keras.Variable(1.0),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_nothing_trains_or_saves_are_refused(name):
    """Also those that TFP reads only when it is asked for a probability."""
    variable = VARIABLES[name]
    for function in (
        lambda raw: tfd.Normal(raw, variable),
        lambda raw: tfd.Normal(raw, tf.exp(variable)),
    ):
        with pytest.raises(ValueError, match=r"reads the var.*nor saved\. Let the"):
            Distribution(function).log_prob(RAW, RAW)


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_variables_that_the_function_makes_are_refused(make):
    def function(raw):
        return tfd.Normal(raw, tf.convert_to_tensor(make(1.0)))

    with pytest.raises(ValueError, match=r"makes variables.*nor saved\. Let the"):
        Distribution(function).element_shape((None, 2))
    dense = keras.layers.Dense(1)
    with pytest.raises(ValueError, match="makes variables"):
        Distribution(lambda raw: tfd.Normal(dense(raw), 1.0)).element_shape((None, 2))


@pytest.mark.parametrize(
    "strategy",
    [tf.distribute.get_strategy, lambda: tf.distribute.MirroredStrategy(["CPU:0"])],
)
def test_weights_of_the_likelihood_itself_are_its_own(strategy):
    class Learned(Distribution):
        def __init__(self):
            super().__init__(lambda raw: tfd.Normal(raw, tf.exp(self.log_scale)))
            self.log_scale = self.add_weight(name="log_scale", shape=())

    with strategy().scope():
        likelihood = Learned()
    assert likelihood.element_shape((None, 2)) == (None, 2)
    with tf.GradientTape() as tape:
        found = likelihood.log_prob(RAW, RAW)
    assert tape.gradient(found, likelihood.trainable_variables)[0] is not None


class WithNoise(keras.Model):
    """A network that has a weight beside its layers."""

    def __init__(self):
        super().__init__()
        self.dense = WeightNormDense(2)
        self.log_scale = self.add_weight(name="log_scale", shape=())

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.parametrize("is_one_of_several", [False, True])
def test_weights_of_the_network_are_trained_with_it(is_one_of_several):
    network, other = WithNoise(), WithNoise()
    x, y = RAW, 5 * RAW[:, ::-1]

    def noisy(raw):
        return tfd.Normal(raw, tf.exp(network.log_scale))

    def compiled(network):
        likelihood = Distribution(noisy)
        if is_one_of_several:
            likelihood = [likelihood]
            inputs = keras.Input((2,))
            network = keras.Model(inputs, [network(inputs)])
        model = bhn_tf.BayesianHypernet(network, "mean_field", likelihood)
        model.compile("adam")
        return model

    before = float(network.log_scale)
    compiled(network).fit(x, y, verbose=0)
    assert float(network.log_scale) != before
    with pytest.raises(ValueError, match="no weights of the model"):
        compiled(other).fit(x, y, verbose=0)


@pytest.mark.parametrize("way", ["weight", "mask"])
def test_a_function_may_take_its_outputs_in_any_order(way):
    """What does not count takes nothing from its neighbours in the row."""

    def beside_each_other(raw):
        return tfd.Normal(raw[..., ::2], tf.exp(raw[..., 1::2]))

    def one_for_all(raw):
        return tfd.Normal(tf.repeat(raw[..., :1], 2, axis=-1), tf.exp(raw[..., 1:]))

    raw = np.random.default_rng(2).normal(size=(3, 4)).astype("float32")
    counted = np.array([[True, False], [True, True], [False, False]])
    for function, raw_size in ((beside_each_other, 4), (one_for_all, 3)):
        outputs = raw[:, :raw_size].copy()
        y = np.zeros([3, 2], "float32")
        elements = function(tf.constant(outputs)).log_prob(y).numpy()
        outputs[2], y[~counted] = np.nan, np.nan
        outputs = tf.constant(outputs)
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            found = Distribution(function).log_prob(y, outputs, **{way: counted})
        np.testing.assert_allclose(found, (elements * counted).sum(axis=1), rtol=1e-5)
        assert np.isfinite(tape.gradient(found, outputs)).all()


def test_an_axis_of_outputs_may_be_used_up():
    """Three outputs make one number per row, and labels have no axis of outputs."""

    def lognormal(raw):
        return tfd.LogNormal(raw[..., 0] + raw[..., 1], 1.0 + raw[..., 2] ** 2)

    raw = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    likelihood, y = Distribution(lognormal), np.arange(1.0, 6.0)
    expected = stats.lognorm(
        1 + raw[:, 2] ** 2, scale=np.exp(raw[:, 0] + raw[:, 1])
    ).logpdf(y)
    np.testing.assert_allclose(likelihood.log_prob(y, raw), expected, rtol=1e-4)
    # 0 has no density, and its gradient is NaN: weight 0 keeps it out.
    y[0] = 0.0
    raw = tf.constant(raw)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = likelihood.log_prob(y, raw, weight=[0, 1, 1, 1, 1])
    assert np.isfinite(tape.gradient(log_prob, raw)).all()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda raw: tfd.Weibull(1.5, tf.exp(raw)), stats.weibull_min(1.5)),
        (lambda raw: tfd.LogNormal(raw, 1.0), stats.lognorm(1)),
        (lambda raw: tfd.InverseGamma(3.0, tf.exp(raw)), stats.invgamma(3)),
        (lambda raw: tfd.Kumaraswamy(tf.exp(raw), 1.5), stats.beta(1, 1.5)),
        (
            lambda raw: tfd.GeneralizedPareto(0.0, tf.exp(raw), -0.5),
            stats.genpareto(-0.5),
        ),
        (lambda raw: tfd.Normal(raw, 1.0), stats.norm()),
    ],
)
@pytest.mark.parametrize("level", [0.5, 0.99])
def test_bounds_are_quantiles_inside_of_what_is_possible(function, reference, level):
    """TFP's cumulative distribution functions are NaN, or anything, outside of it."""
    found = Distribution(function).interval(np.zeros([3, 2, 1], "float32"), level)
    expected = reference.ppf([(1 - level) / 2, (1 + level) / 2])
    low, high = reference.support()
    for bound, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(bound, np.full([2, 1], right), rtol=1e-4)
        assert np.all((low <= bound) & (bound <= high))


def of_atom(raw, share, at, rest):
    atom = tfd.Deterministic(tf.zeros_like(raw) + at)
    shares = tf.zeros_like(raw)[..., None] + [share, 1 - share]
    return tfd.Mixture(tfd.Categorical(probs=shares), [atom, rest])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("function", "level", "expected"),
    [
        # Rain: none with probability 0.4 (like 0.08 at a level of 0.9).
        (
            lambda raw: of_atom(raw, 0.4, 0.0, tfd.LogNormal(raw, 1.0)),
            0.5,
            (0.0, stats.lognorm(1).ppf(0.35 / 0.6)),
        ),
        (
            lambda raw: of_atom(raw, 0.08, 0.0, tfd.LogNormal(raw, 1.0)),
            0.9,
            (0.0, stats.lognorm(1).ppf(0.87 / 0.92)),
        ),
        # Shares that are often 1.
        (
            lambda raw: of_atom(raw, 0.3, 1.0, tfd.Uniform(raw, raw + 1.0)),
            0.5,
            (0.25 / 0.7, 1.0),
        ),
        (lambda raw: of_atom(raw, 0.9, 7.0, tfd.Normal(raw, 1.0)), 0.5, (7.0, 7.0)),
        # The variance is infinite.
        (
            lambda raw: tfd.Pareto(1.5, tf.exp(raw)),
            0.9,
            stats.pareto(1.5).ppf([0.05, 0.95]),
        ),
    ],
)
def test_atoms_belong_to_intervals_and_a_variance_is_not_needed(
    function, level, expected
):
    raws = np.zeros([3, 2, 1], "float32")
    bounds = Distribution(function).interval(raws, level)
    for bound, right in zip(bounds, expected, strict=True):
        np.testing.assert_allclose(bound, np.full([2, 1], right), rtol=1e-5)


def test_counts_have_whole_numbers_for_bounds():
    likelihood = Distribution(lambda raw: tfd.Geometric(logits=raw), is_discrete=True)
    raws = np.full((3, 2, 1), -1.0, "float32")
    low, high = likelihood.interval(raws, 0.9)
    # scipy counts trials, TFP failures.
    geometric = stats.geom(1 / (1 + np.e), loc=-1)
    np.testing.assert_array_equal(low, np.full((2, 1), geometric.ppf(0.05)))
    np.testing.assert_array_equal(high, np.full((2, 1), geometric.ppf(0.95)))
    with pytest.raises(ValueError, match="give a whole number"):
        likelihood.check_labels([0.5], (None, 1))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("function", "possible", "impossible"),
    [
        (lambda raw: tfd.LogNormal(raw, 1.0), [1e-9, 3], [0, -1]),
        (lambda raw: tfd.Exponential(tf.exp(raw)), [0, 3], [-1e-6]),
        (lambda raw: tfd.Beta(tf.exp(raw), 2.0), [1e-3, 0.99], [0, 1, 1.5]),
        (lambda raw: tfd.Binomial(10.0, logits=raw), [0, 10], [-1, 11]),
        (lambda raw: tfd.Geometric(logits=raw), [0, 99], [-1]),
        (lambda raw: tfd.Bernoulli(logits=raw), [0, 1], [-1, 2]),
        (lambda raw: tfd.TruncatedNormal(raw, 1.0, 0.1, 0.3), [0.1, 0.3], [0.31]),
        (
            lambda raw: of_atom(raw, 0.4, 0.0, tfd.LogNormal(raw, 1.0)),
            [0, 3],
            [-1],
        ),
        # The row decides, or nobody knows, or every number is an angle.
        (lambda raw: tfd.Uniform(raw, raw + 1.0), [-5, 5], []),
        (lambda raw: tfd.Skellam(tf.exp(raw), 1.0), [-5, 5], []),
        (lambda raw: tfd.VonMises(raw, 1.0), [-5, 5], []),
        (lambda raw: tfd.Normal(raw, 1.0, validate_args=True), [-5, 5], []),
        (lambda raw: tfd.LogNormal(raw, 1.0, validate_args=True), [1], [-1]),
    ],
)
def test_labels_that_no_row_could_have_are_refused(function, possible, impossible):
    likelihood = Distribution(function)
    possible = np.float32(possible)[:, None]
    likelihood.check_labels(possible, (None, 1))
    in_graph = tf.function(lambda y: likelihood.valid_labels(y, (None, 1)))
    assert in_graph(possible)
    for label in impossible:
        labels = np.append(possible, np.float32([[label]]), axis=0)
        with pytest.raises(ValueError, match="one the distribution can take"):
            likelihood.check_labels(labels, (None, 1))
        assert not in_graph(labels)
        likelihood.check_labels(labels, (None, 1), [1] * len(possible) + [0])


def test_what_is_no_function_or_no_distribution_is_refused():
    with pytest.raises(ValueError, match="Expected a function of raw outputs"):
        Distribution(tfd.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match="expected a distribution of"):
        Distribution(lambda raw: raw).mean(RAW)


def unregistered(raw):
    return tfd.Normal(raw, 1.0)


@keras.saving.register_keras_serializable("test_function")
def registered(raw):
    return tfd.Normal(raw, 1.0)


@keras.saving.register_keras_serializable("test_function")
class Scaled:
    """A function with a setting."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, raw):
        return tfd.Normal(raw, self.scale)

    def get_config(self):
        return {"scale": self.scale}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def loaded(likelihood, **options):
    saved = keras.saving.serialize_keras_object(likelihood)
    return keras.saving.deserialize_keras_object(saved, **options)


@pytest.mark.parametrize("function", [registered, Scaled(2.0)])
@pytest.mark.filterwarnings("error")
def test_what_is_registered_comes_back(function):
    likelihood = Distribution(function)
    np.testing.assert_array_equal(
        loaded(likelihood).log_prob(RAW, RAW), likelihood.log_prob(RAW, RAW)
    )


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize("function", [unregistered, lambda raw: tfd.Normal(raw, 1.0)])
def test_what_could_not_be_loaded_is_warned_of_at_once(function):
    with pytest.warns(UserWarning, match="not registered.*register_keras") as warned:
        likelihood = Distribution(function)
    assert warned[0].filename == __file__
    with pytest.raises((TypeError, ValueError)):
        loaded(likelihood)


@pytest.mark.filterwarnings("error")
def test_what_is_known_in_a_scope_is_not_warned_of():
    with keras.saving.custom_object_scope({"unregistered": unregistered}):
        loaded(Distribution(unregistered))
