"""The estimators of scikit-learn: its own checks, and what a table of data needs."""

import pickle

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from bhn_tf import conformal
from bhn_tf.callbacks import Diverged
from bhn_tf.hypernets import RealNVP
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Distribution, Gaussian, Ordinal, Standardized
from bhn_tf.metrics import concordance_index
from bhn_tf.sklearn import BHNClassifier, BHNRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
Y = 100.0 + 30.0 * X[:, 0] + RANDOM.normal(size=60)
NAMES = np.where(Y > 100.0, "high", "low")
SMALL = {
    "hidden_units": (8,),
    "hypernet": "mean_field",
    "epochs": 20,
    "learning_rate": 0.05,
    "num_samples": 8,
    "random_state": 0,
}
#: Checks that a stochastic optimiser, or float32, cannot pass everywhere.
EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is in one "
    "batch of an epoch, and two equal rows may be in two",
    **dict.fromkeys(
        ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
        "on some processors the last digit of float32 depends on a row's place in the "
        "batch",
    ),
}
#: The most telling of scikit-learn's checks; the slow test runs all.
CHECKS = {
    BHNClassifier: [
        "check_estimators_unfitted",
        "check_classifiers_one_label",
        "check_dict_unchanged",
        "check_methods_subset_invariance",
        "check_sample_weights_pandas_series",
    ],
    BHNRegressor: [
        "check_no_attributes_set_in_init",
        "check_fit2d_1feature",
        "check_regressor_multioutput",
        "check_supervised_y_2d",
        "check_n_features_in_after_fitting",
    ],
}


def small(kind, **options):
    return kind(**{**SMALL, **options})


def fast(kind):
    return small(kind, batch_size=64)


@pytest.fixture(scope="module")
def regressor():
    return small(BHNRegressor).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return small(BHNClassifier).fit(X, NAMES)


# -- scikit-learn's own checks ---------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ["kind", "name"], [(kind, name) for kind in CHECKS for name in CHECKS[kind]]
)
def test_a_check_of_scikit_learn(kind, name):
    getattr(estimator_checks, name)(kind.__name__, fast(kind))


@pytest.mark.slow
@parametrize_with_checks(
    [fast(BHNClassifier), fast(BHNRegressor)],
    expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL,
)
def test_all_checks_of_scikit_learn(estimator, check):
    check(estimator)


# -- answers ---------------------------------------------------------------------------


def test_a_regression_answers_in_the_units_and_the_shape_of_its_targets(regressor):
    mean, std = regressor.predict(X, return_std=True)
    lower, upper = regressor.predict_interval(X, level=0.9)
    assert mean.shape == std.shape == lower.shape == upper.shape == Y.shape
    assert regressor.score(X, Y) > 0.7
    assert np.mean((lower <= Y) & (upper >= Y)) > 0.7
    wider = regressor.predict_interval(X, level=0.99)
    assert (wider[0] < lower).all() and (upper < wider[1]).all()


@pytest.mark.slow
def test_answers_of_a_fit_repeat_and_a_fit_repeats_by_its_random_state(regressor):
    np.testing.assert_array_equal(regressor.predict(X), regressor.predict(X))
    # The global seed, which worker processes of a search lack, has no influence.
    keras.utils.set_random_seed(7)
    again = clone(regressor).fit(X, Y)
    np.testing.assert_allclose(again.predict(X), regressor.predict(X), rtol=1e-4)
    other = small(BHNRegressor, random_state=1).fit(X, Y)
    assert np.abs(other.predict(X) - regressor.predict(X)).max() > 1e-3


@pytest.mark.parametrize(["name", "x", "y"], [("X", X + 1.7e9, Y), ("y", X, Y + 1.7e9)])
def test_what_float32_hardly_tells_apart_is_refused(name, x, y):
    with pytest.raises(ValueError, match=f"`{name}` varies from 1.*Subtract"):
        small(BHNRegressor, epochs=1).fit(x, y)


def test_what_is_too_large_for_float32_is_refused():
    with pytest.raises(ValueError, match="`X` has values too large for float32"):
        small(BHNRegressor, epochs=1).fit(X * 1e39, Y)


def test_what_is_too_small_for_float32_is_refused():
    with pytest.raises(ValueError, match="`X` varies from .*use a smaller unit"):
        small(BHNRegressor, epochs=1).fit(X * 1e-40, Y)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-110, 2.0**65, 2.0**124])
def test_the_units_of_inputs_do_not_matter(unit, regressor):
    other_units = X * [unit, 1.0, 1.0]
    again = small(BHNRegressor).fit(other_units, Y)
    np.testing.assert_allclose(again.predict(other_units), regressor.predict(X), 1e-4)


def test_large_numbers_that_do_not_vary_are_centred():
    table = np.column_stack([X, np.full(len(X), 1e37)])
    assert np.isfinite(small(BHNRegressor, epochs=1).fit(table, Y).predict(table)).all()


@pytest.mark.parametrize("kind", [BHNClassifier, BHNRegressor])
@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_entries_are_refused(name, kind):
    data = {"X": X, "y": Y > 100.0, "sample_weight": np.ones(len(X))}
    data[name] = np.ma.array(data[name], mask=data[name] == data[name].flat[0])
    with pytest.raises(ValueError, match=f"`{name}` is a masked array with"):
        small(kind, epochs=1).fit(**data)


def test_masked_entries_are_refused_in_predictions(regressor):
    with pytest.raises(ValueError, match="`X` is a masked array with"):
        regressor.predict(np.ma.masked_greater(X, 0.0))


@pytest.mark.parametrize("kind", [BHNClassifier, BHNRegressor])
@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[s]", "period[D]"])
def test_times_are_refused(dtype, kind):
    days = pd.Series(np.arange(len(X)))
    if dtype == "period[D]":
        days = pd.to_datetime(days, unit="D")
    table = pd.DataFrame(X).assign(day=days.astype(dtype))
    with pytest.raises(ValueError, match=rf"`X` holds {dtype[:6]}.*, and no num"):
        small(kind, epochs=1).fit(table, Y > 100.0)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_arrays_of_times_are_refused(name):
    data = {"X": X, "y": Y, "sample_weight": np.ones(len(X))}
    data[name] = np.ones(data[name].shape, "timedelta64[D]")
    with pytest.raises(ValueError, match=f"`{name}` holds timedelta64.D., and no num"):
        small(BHNRegressor, epochs=1).fit(**data)


def test_times_are_refused_in_predictions(regressor):
    with pytest.raises(ValueError, match="`X` holds datetime64.D., and no numbers"):
        regressor.predict(X.astype("datetime64[D]"))


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_column_that_did_not_vary_may_do_so_later(value):
    table = np.column_stack([X, np.full(len(X), value)])
    regressor = small(BHNRegressor, epochs=5).fit(table, Y)
    before = regressor.predict(table)
    assert np.isfinite(before).all()
    table[:, 3] += 1.0
    assert np.abs(regressor.predict(table) - before).max() < 10 * Y.std()


def test_a_fit_leaves_the_global_generators_alone():
    np.random.seed(0)
    expected = np.random.uniform()
    np.random.seed(0)
    small(BHNRegressor, epochs=1).fit(X, Y)
    assert np.random.uniform() == expected


@pytest.mark.slow
def test_a_row_of_weight_zero_is_no_row(regressor):
    weight = np.ones(len(X) + 5)
    weight[-5:] = 0.0
    x = np.concatenate([X, np.full([5, 3], 1e3)])
    y = np.concatenate([Y, np.full(5, -1e6)])
    weighted = clone(regressor).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict(X), regressor.predict(X), rtol=1e-4)
    with pytest.raises(ValueError, match=r"weight.*zero|entries.*0"):
        clone(regressor).fit(X, Y, sample_weight=np.zeros(len(X)))


def test_a_classification_answers_with_its_own_labels(classifier):
    probabilities = classifier.predict_proba(X)
    assert classifier.classes_.tolist() == ["high", "low"]
    # The tolerance of `log_loss`, which warns beyond it.
    tolerance = np.sqrt(np.finfo(probabilities.dtype).eps)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=tolerance)
    logs = classifier.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), probabilities)
    assert set(classifier.predict(X)) == {"high", "low"}
    assert classifier.score(X, NAMES) > 0.8
    assert (classifier.predict_uncertainty(X)["mutual_information"] >= 0).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["series", "array", "frame"])
@pytest.mark.parametrize(
    ["dtype", "kind"], [("Int64", "i"), ("UInt8", "u"), ("boolean", "b")]
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_of_nullable_dtypes_stay_what_they_are(dtype, kind, form):
    labels = pd.Series(Y > 100.0).astype(dtype)
    given = {"series": labels, "array": labels.array, "frame": labels.to_frame()}[form]
    classifier = small(BHNClassifier).fit(X, given)
    assert classifier.classes_.dtype.kind == classifier.predict(X).dtype.kind == kind
    assert classifier.score(X, given) > 0.8


@pytest.mark.parametrize("dtype", ["Int64", "string", "object", "category"])
def test_missing_labels_are_refused(dtype):
    labels = pd.Series(Y > 100.0).astype("Int64").where(Y < 130.0)
    with pytest.raises(ValueError, match=r"`y` has missing values .* of 60 rows"):
        small(BHNClassifier).fit(X, labels.astype(dtype))


@pytest.mark.slow
def test_ordered_classes_have_one_output():
    grades = np.clip(np.round(X[:, 0] + 1), 0, 2).astype(int)
    names = np.array(["A low", "B middle", "C high"])[grades]
    ordinal = small(BHNClassifier, likelihood=Ordinal(3)).fit(X, names)
    assert ordinal.model_.primary.output_shape[-1] == 1
    assert ordinal.predict_proba(X).shape == (60, 3)
    assert ordinal.score(X, names) > 0.6
    for wrong, advice in ((Ordinal(5), r"Ordinal\(3\)"), ("bernoulli", "Categorical")):
        with pytest.raises(ValueError, match=advice):
            small(BHNClassifier, likelihood=wrong).fit(X, names)


def test_what_was_fitted_can_be_calibrated(regressor):
    calibrated = conformal.calibrate(regressor.model_, X.astype("float32"), Y)
    lower, upper = calibrated.predict_interval(X.astype("float32"), 0.9, verbose=0)
    assert np.mean((lower[:, 0] <= Y) & (upper[:, 0] >= Y)) >= 0.9


# -- waiting times ---------------------------------------------------------------------

WAITS = np.exp(X[:, 0]) * RANDOM.weibull(2.0, size=60)
WATCHED = RANDOM.uniform(1.0, 3.0, size=60)
TIME, EVENT = np.minimum(WAITS, WATCHED), WAITS <= WATCHED
CENSORED = np.column_stack([TIME, EVENT])


@pytest.fixture(scope="module")
def survival():
    return small(BHNRegressor, likelihood="weibull").fit(X, CENSORED)


def test_waiting_times_have_one_output_and_answers_of_the_time(survival):
    assert survival.model_.primary.output_shape[-1] == 1
    mean, std = survival.predict(X, return_std=True)
    lower, upper = survival.predict_interval(X, level=0.9)
    assert mean.shape == std.shape == lower.shape == upper.shape == TIME.shape
    assert (lower < mean).all() and (mean < upper).all()
    assert np.mean((lower <= WAITS) & (upper >= WAITS)) > 0.7


def test_the_score_of_waiting_times_is_that_of_scikit_survival(survival):
    expected = concordance_index(TIME, EVENT, survival.predict(X))
    assert survival.score(X, CENSORED) == expected > 0.7
    with pytest.raises(ValueError, match="pairs of rows"):
        survival.score(X, CENSORED, np.ones(60))
    search = GridSearchCV(
        small(BHNRegressor, likelihood="censored_log_normal", epochs=2),
        {"prior_stddev": [0.3, 1.0]},
        cv=2,
    ).fit(X, CENSORED)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        pd.DataFrame({"event": EVENT, "time": TIME}),
        pd.DataFrame({"weeks": TIME, "relapse": EVENT}),
        np.rec.fromarrays([EVENT, TIME], names="status,weeks"),
    ],
    ids=["names", "places", "scikit-survival"],
)
def test_waiting_times_in_other_forms(form, survival):
    other = small(BHNRegressor, likelihood="weibull").fit(X, form)
    np.testing.assert_allclose(other.predict(X), survival.predict(X), rtol=1e-4)
    assert survival.score(X, form) == survival.score(X, CENSORED)


@pytest.mark.slow
def test_several_waiting_times():
    both = np.column_stack([CENSORED, CENSORED[:, [0]] * 2, CENSORED[:, [1]]])
    regressor = small(BHNRegressor, likelihood="weibull", epochs=2).fit(X, both)
    assert regressor.predict(X).shape == (60, 2)
    assert 0 < regressor.score(X, both) < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("y", "advice"),
    [
        (TIME, r"\[time, event\]"),
        (np.column_stack([CENSORED, TIME]), r"\[time, event\]"),
        (np.rec.fromarrays([TIME, EVENT]), "scikit-survival"),
        (np.column_stack([TIME, EVENT + 1]), "A batch has.*event 1"),
    ],
    ids=["times alone", "three columns", "fields", "events of 2"],
)
def test_what_is_no_waiting_time_is_refused(y, advice):
    with pytest.raises(ValueError, match=advice):
        small(BHNRegressor, likelihood="weibull", epochs=1).fit(X, y)


# -- arguments -------------------------------------------------------------------------


def with_own_layers(num_features, num_outputs):
    return keras.Sequential(
        [keras.Input((num_features,)), WeightNormDense(num_outputs)]
    )


def plain(num_features, num_outputs):
    return keras.Sequential(
        [keras.Input((num_features,)), keras.layers.Dense(num_outputs)]
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("network", [with_own_layers, plain])
def test_a_function_that_builds_the_network(network):
    regressor = small(BHNRegressor, network=network, epochs=1).fit(X, Y)
    assert regressor.model_.num_random == 1


@pytest.mark.slow
def test_instances_stay_as_they_are_and_survive_a_clone():
    hypernet, noise = RealNVP(1, (4,)), Gaussian(heteroscedastic=True)
    regressor = clone(
        small(BHNRegressor, hypernet=hypernet, likelihood=noise, epochs=1)
    )
    for _ in range(2):
        regressor.fit(X, Y)
    assert regressor.model_.primary.output_shape[-1] == 2
    assert isinstance(regressor.hypernet, RealNVP) and not regressor.hypernet.built
    assert not hypernet.built


def test_a_standardized_likelihood_says_how_many_outputs_it_takes():
    noise = Standardized(Gaussian(heteroscedastic=True))
    regressor = small(BHNRegressor, likelihood=noise, epochs=1).fit(X, Y)
    assert regressor.model_.primary.output_shape[-1] == 2


@keras.saving.register_keras_serializable("test_sklearn")
def of_two_outputs(raw):
    scale = tf.nn.softplus(raw[..., 1:]) + 0.1
    return tfp.distributions.Gumbel(raw[..., :1], scale)


@pytest.mark.slow
def test_a_distribution_of_more_outputs_needs_a_network():
    options = {"likelihood": Distribution(of_two_outputs), "epochs": 1}
    with pytest.raises(ValueError, match="Give `network=`"):
        small(BHNRegressor, **options).fit(X, Y)

    def network(num_features, num_outputs):
        return with_own_layers(num_features, 2 * num_outputs)

    regressor = small(BHNRegressor, network=network, **options).fit(X, Y / 100)
    assert regressor.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0},
        {"batch_size": 1.5},
        {"kl_annealing": -1},
        {"kl_annealing": 10},
        {"kl_annealing": float("nan")},
        {"learning_rate": 0.0},
        {"learning_rate": -1e-3},
        {"learning_rate": float("inf")},
        {"learning_rate": "auto"},
        {"hypernet": RealNVP},
        {"hypernet": 3},
        {"likelihood": Ordinal(3)},
        {"likelihood": "categorical"},
    ],
)
def test_numbers_without_sense_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        small(BHNRegressor, **options).fit(X, Y)


@pytest.mark.few(1)
@pytest.mark.parametrize("units", [5, np.int64(5), np.array([5])])
def test_one_hidden_layer_may_be_given_as_a_number(units):
    regressor = small(BHNRegressor, hidden_units=units, epochs=1).fit(X, Y)
    assert regressor.model_.primary.layers[-1].layers[0].units == 5


@pytest.mark.few(1)
@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_last_epoch_has_all_of_the_bound(epochs, share):
    regressor = small(BHNRegressor, epochs=epochs, kl_annealing=share).fit(X, Y)
    assert regressor.history_["kl_weight"][-1] == 1.0


# -- tables, searches, files -----------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("estimator", [BHNClassifier, BHNRegressor])
def test_a_fit_that_diverges_is_no_fit(estimator):
    y = NAMES if estimator is BHNClassifier else Y
    with pytest.raises(Diverged, match="A lower learning rate"):
        estimator(**{**SMALL, "learning_rate": 1e30}).fit(X, y)


@pytest.mark.parametrize("kind", [BHNClassifier, BHNRegressor])
def test_a_fit_that_fails_leaves_the_fit_before(kind):
    other = np.where(X[:, 0] > 0, "yes", "no") if kind is BHNClassifier else X[:, :2]
    estimator = small(kind, epochs=1)
    with pytest.raises(ValueError, match="learning_rate"):
        estimator.set_params(learning_rate=-1.0).fit(X[:, :2], other)
    with pytest.raises(NotFittedError):
        estimator.predict(X[:, :2])
    y = NAMES if kind is BHNClassifier else Y
    expected = estimator.set_params(learning_rate=0.05).fit(X, y).predict(X)
    with pytest.raises(ValueError, match="learning_rate"):
        estimator.set_params(learning_rate=-1.0).fit(X[:, :2], other)
    np.testing.assert_array_equal(estimator.predict(X), expected)


@pytest.mark.slow
def test_a_data_frame_with_categories_in_a_search():
    frame = pd.DataFrame(
        {"size": X[:, 0], "color": np.where(X[:, 1] > 0, "red", "blue")}
    )
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["size"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["color"]),
        ],
        sparse_threshold=0.0,
    )
    pipeline = make_pipeline(columns, small(BHNClassifier, epochs=3))
    search = GridSearchCV(
        pipeline, {"bhnclassifier__prior_stddev": [0.3, 1.0]}, cv=2
    ).fit(frame, NAMES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict_proba(frame).shape == (len(frame), 2)


@pytest.mark.slow
def test_folds_in_processes_of_their_own():
    regressor = small(BHNRegressor)
    together = cross_val_score(regressor, X, Y, cv=2, n_jobs=2)
    np.testing.assert_allclose(together, cross_val_score(regressor, X, Y, cv=2), 1e-3)


def test_a_pickle_answers_the_same_in_a_fresh_process(regressor, tmp_path, run_python):
    path = tmp_path / "regressor.pickle"
    path.write_bytes(pickle.dumps(regressor))
    np.save(tmp_path / "x.npy", X)
    code = (
        "import pickle, sys, numpy as np\n"
        "regressor = pickle.load(open(sys.argv[1], 'rb'))\n"
        "x = np.load(sys.argv[2])\n"
        "np.save(sys.argv[3], regressor.predict(x, return_std=True))\n"
    )
    run_python("-c", code, path, tmp_path / "x.npy", tmp_path / "y.npy")()
    expected = regressor.predict(X, return_std=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5)
