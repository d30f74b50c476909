"""Frames and series of pandas are the arrays of what they hold."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf import conformal
from bhn_tf.data_feeds import array_of_frame
from bhn_tf.layers import WeightNormDense
from tests import networks

pd = pytest.importorskip("pandas")
X, _ = networks.data(20)
ARRAY = np.stack([X[:, 0], X[:, 1] > 0, X[:, 2] > 0, np.round(3 * X[:, 3])], axis=1)
FRAME = pd.DataFrame(
    {
        "size": ARRAY[:, 0].astype("float64"),
        "colour_red": ARRAY[:, 1] > 0,
        "is_new": pd.array(ARRAY[:, 2] > 0, "boolean"),
        "rooms": pd.array(ARRAY[:, 3].astype(int), "Int64"),
    },
    index=np.arange(20)[::-1],
)


def regression(likelihood="gaussian", **kwargs):
    layers = [keras.Input((4,)), WeightNormDense(1)]
    model = bhn_tf.BayesianHypernet(
        keras.Sequential(layers), "mean_field", likelihood, seed=1, **kwargs
    )
    model.compile("sgd", run_eagerly=True)
    return model


def answers(x, y):
    keras.utils.set_random_seed(0)
    model = regression(bhn_tf.likelihoods.Gaussian(trainable=True))
    model.initialize_from_data(x, y)
    logs = model.fit(x, y, shuffle=False, verbose=0, validation_data=(x, y)).history
    arguments = {"num_samples": 2, "seed": 1, "verbose": 0}
    calibrated = conformal.calibrate(model, x, y, num_samples=2)
    return [
        *logs.values(),
        model.evaluate(x, y, **arguments),
        model.predict(x, **arguments).tolist(),
        model.elbo(x, y, num_samples=2, seed=1).mean,
        calibrated.thresholds(0.5).tolist(),
    ]


@pytest.mark.slow
def test_a_frame_is_the_array_of_its_numbers():
    y = FRAME["rooms"].to_numpy("int64")
    assert answers(FRAME, FRAME["rooms"]) == answers(ARRAY, y)


class Batches(keras.utils.PyDataset):
    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    @property
    def num_batches(self):
        return 2

    def __getitem__(self, index):
        rows = slice(10 * index, 10 * index + 10)
        return tuple(None if a is None else a[rows] for a in self.arrays)


def generated(*arrays):
    batches = Batches(*arrays)
    return (batches[index] for index in range(2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("make", [Batches, generated])
@pytest.mark.parametrize("weight", [None, FRAME["size"] ** 2], ids=["", "weighted"])
def test_batches_may_be_frames(make, weight):
    def answers_in_batches(x, y, weight):
        model = regression(num_examples=20)
        arguments = {"num_samples": 2, "seed": 1, "verbose": 0}
        return [
            model.fit(make(x, y, weight), shuffle=False, verbose=0).history,
            model.evaluate(make(x, y, weight), **arguments),
            model.predict(make(x, None, None), **arguments).tolist(),
        ]

    keras.utils.set_random_seed(0)
    of_frames = answers_in_batches(FRAME, FRAME["rooms"], weight)
    keras.utils.set_random_seed(0)
    weight = None if weight is None else weight.to_numpy()
    assert of_frames == answers_in_batches(ARRAY, ARRAY[:, 3:], weight)


def absolute_error(y_true, y_pred):
    """A metric that says nothing of shapes, as users write them."""
    return keras.ops.mean(keras.ops.abs(y_true - y_pred))


@pytest.mark.parametrize("weight", [None, FRAME["size"] ** 2], ids=["", "weighted"])
def test_a_series_is_a_column_as_in_keras(weight):
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    x, arguments = FRAME.astype("float32"), {"verbose": 0, "return_dict": True}
    found = []
    for model in (network, bhn_tf.baselines.Deterministic(network, "gaussian")):
        loss = {"loss": "mse"} if model is network else {}
        weighted = ["mse"] if weight is not None else None
        model.compile(
            "sgd", metrics=[absolute_error], weighted_metrics=weighted, **loss
        )
        found.append(
            model.evaluate(x, FRAME["size"], sample_weight=weight, **arguments)
        )
    stock, ours = found
    assert ours.items() >= {**stock, "loss": ours["loss"]}.items()


class OfAnyInput(keras.Model):
    """A network without a shape of its own: it takes the one of its data."""

    def __init__(self):
        super().__init__()
        self.dense = WeightNormDense(1)

    def call(self, x):
        return self.dense(x["size"] if isinstance(x, dict) else x)


@pytest.mark.slow
@pytest.mark.parametrize("of_inputs", [lambda x: x, lambda x: {"size": x}])
def test_a_series_of_inputs_builds_a_network(of_inputs):
    x, y = of_inputs(FRAME["size"]), FRAME["size"]
    model = bhn_tf.BayesianHypernet(OfAnyInput(), "mean_field", "gaussian")
    model.compile("sgd", run_eagerly=True)
    model.fit(x, y, validation_data=(x, y), verbose=0)
    assert model.predict(x, verbose=0).shape == (20, 1)
    model.train_on_batch(x, y)


def test_a_series_of_text_is_a_column():
    layers = keras.layers
    network = keras.Sequential(
        [
            layers.TextVectorization(output_sequence_length=1, vocabulary=["red"]),
            layers.Embedding(3, 2),
            layers.Flatten(),
            WeightNormDense(1),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", "gaussian", num_examples=9)
    words = pd.Series(["red", "blue"] * 10)
    assert model.predict(words, verbose=0).shape == (20, 1)


def test_the_dtype_is_the_one_that_holds_all_columns():
    array = array_of_frame("x", FRAME)
    assert array.dtype == "float64"
    np.testing.assert_array_equal(array, ARRAY.astype("float64"))
    assert array_of_frame("x", FRAME[["colour_red", "is_new"]]).dtype == bool
    assert array_of_frame("x", FRAME["rooms"]).dtype == "int64"
    assert array_of_frame("x", FRAME[["size"]].astype("Float32")).dtype == "float32"


def test_a_frame_of_times_and_events_is_one_of_labels():
    y = pd.DataFrame({"time": np.exp(X[:, 0]).astype("float64"), "event": X[:, 1] > 0})
    model = regression(bhn_tf.likelihoods.CensoredWeibull())
    model.fit(FRAME, y, verbose=0)
    expected = model.evaluate(ARRAY, y.to_numpy("float64"), seed=1, verbose=0)
    assert model.evaluate(FRAME, y, seed=1, verbose=0) == expected


@pytest.mark.parametrize("name", ["x", "y", "sample_weight"])
def test_missing_values_are_refused_by_name(name):
    data = {"x": FRAME, "y": FRAME["size"], "sample_weight": FRAME["size"] ** 2}
    missing = data[name].astype("Float64")
    missing.iloc[3] = pd.NA
    with pytest.raises(ValueError, match=f"`{name}` has missing values.*'size'"):
        regression().fit(**{**data, name: missing}, verbose=0)


def test_numbers_that_are_objects_are_refused_with_advice():
    objects = FRAME["rooms"].to_numpy("int64").astype(object)
    with pytest.raises(ValueError, match=r"y\.astype\('float32'\)"):
        regression().fit(FRAME, objects, verbose=0)
    with pytest.raises(ValueError, match=r"x\.astype\('float32'\)"):
        regression().fit(ARRAY.astype(object), FRAME["size"], verbose=0)


def test_sparse_columns_are_numbers():
    kinds = pd.Series(["red", "blue"] * 10, index=FRAME.index)
    dummies = pd.get_dummies(kinds, sparse=True)
    frame = pd.concat([FRAME[["size"]], dummies], axis=1)
    np.testing.assert_array_equal(
        array_of_frame("x", frame),
        np.column_stack([FRAME["size"], dummies.to_numpy("float64")]),
    )
    assert array_of_frame("y", dummies["red"]).dtype == bool


@pytest.mark.parametrize(
    ["column", "dtype"],
    [
        (pd.Categorical(["a", "b"] * 10), "category"),
        (pd.date_range("2020", periods=20), "datetime64"),
        (pd.to_timedelta(np.arange(20), "s"), "timedelta64"),
        (np.full(20, 1j), "complex128"),
        (pd.interval_range(0, 20), "interval"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("name", ["x", "y"])
def test_what_is_no_number_is_named_with_advice(name, column, dtype):
    frame = FRAME[["size"]].assign(kind=column)
    data = {"x": FRAME, "y": FRAME["size"]}
    data[name] = frame if name == "x" else frame["kind"]
    message = f"`{name}` has no numbers in 'kind', but {dtype}.*`pandas.get_dummies`"
    with pytest.raises(ValueError, match=message):
        regression().fit(**data, verbose=0)


def test_a_frame_without_columns_is_refused():
    with pytest.raises(ValueError, match="`x` is a frame without columns"):
        regression().fit(FRAME[[]], FRAME["size"], verbose=0)


@pytest.mark.parametrize("name", ["x", "y", "sample_weight"])
@pytest.mark.parametrize("in_batches", [False, True], ids=["", "in batches"])
def test_masked_entries_are_refused_by_name(name, in_batches):
    data = {"x": ARRAY, "y": ARRAY[:, 0], "sample_weight": ARRAY[:, 0] ** 2}
    data[name] = np.ma.masked_greater(data[name], 0.1)
    if in_batches:
        data = {"x": Batches(*data.values())}
    with pytest.raises(ValueError, match=f"`{name}` is a masked array with"):
        regression().fit(**data, verbose=0)


@pytest.mark.slow
def test_masked_arrays_without_a_masked_entry_are_arrays():
    y = ARRAY[:, 0]
    assert answers(np.ma.array(ARRAY), np.ma.array(y)) == answers(ARRAY, y)


@pytest.mark.slow
def test_a_column_may_be_called_as_the_mask_of_an_array():
    y = ARRAY[:, 0]
    frame = pd.DataFrame(ARRAY, columns=["_mask", "kind", "is_new", "rooms"])
    assert answers(frame, y) == answers(ARRAY, y)


@pytest.mark.parametrize(
    ["values", "advice"],
    [
        (FRAME[["size"]].to_records(), "structured_to_unstructured"),
        (ARRAY.astype("longdouble"), "astype"),
        (pd.array(ARRAY[:, 0], "Float64"), "Float64.*astype"),
        (np.arange(20).astype("datetime64[s]"), "datetime64.*astype"),
    ],
    ids=["records", "longdouble", "nullable", "times"],
)
@pytest.mark.parametrize("name", ["x", "y"])
def test_dtypes_that_keras_does_not_take_are_named(name, values, advice):
    data = {"x": ARRAY, "y": ARRAY[:, 0], name: values}
    with pytest.raises(ValueError, match=f"`{name}` holds a .* of dtype .*{advice}"):
        regression().fit(**data, verbose=0)


@pytest.mark.slow
def test_an_arrow_table_is_refused_with_advice():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"size": ARRAY[:, 0]})
    with pytest.raises(ValueError, match=r"holds a Table.*np\.asarray\(x\)"):
        regression().fit(table, ARRAY[:, 0], verbose=0)
