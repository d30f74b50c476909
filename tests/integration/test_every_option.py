"""Every public option works in all that is compiled; see `every_option.py`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests import networks
from tests.integration import every_option
from tests.integration.asked_cases import asked_cases


@pytest.fixture(scope="module")
def models(request, tmp_path_factory):
    """Trained models, what they say, and the folder in which they are saved."""
    folder, found = tmp_path_factory.mktemp("options"), {}
    for name in asked_cases(request, "name"):
        model, x, y = every_option.made(name)
        history = every_option.fit(model, x, y)
        said = every_option.says(model, x, y)
        model.save(folder / f"{name}.keras")
        found[name] = model, x, y, history, said
    return found, folder


@pytest.fixture(scope="module")
def loaded(models, run_python):
    """What the models say in a process that has only loaded them."""
    found, folder = models
    run_python(every_option.__file__, "continue", folder, *found)()
    return {name: dict(np.load(folder / f"{name}.npz")) for name in found}


every_case = pytest.mark.parametrize("name", every_option.CASES)


@every_case
def test_training_and_evaluation(models, name):
    model, _, _, history, said = models[0][name]
    assert np.isfinite(list(history.values())).all(), history
    num_examples = every_option.NUM_ROWS
    weights = model.objective.loss_weights
    networks.assert_identity(history, num_examples)
    networks.assert_identity(history, num_examples, "val_")
    logs = {
        path.removeprefix("/evaluate/"): value
        for path, value in said.items()
        if path.startswith("/evaluate/")
    }
    networks.assert_identity(logs, num_examples)
    if len(weights) == 1 and model.likelihood.reduction == "sum":
        assert logs["predictive_nll"] <= logs["nll"] + 1e-3  # Jensen's inequality.


@every_case
def test_answers_agree(models, name):
    _, _x, _, _, said = models[0][name]
    for path, values in said.items():
        assert np.isfinite(values).all(), path
        if not path.startswith("/samples"):
            continue
        output = path.removeprefix("/samples")
        mean = said[f"/predict{output}"]
        np.testing.assert_allclose(values.mean(axis=1), mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(said[f"/on batch{output}"], mean, rtol=1e-4)
        np.testing.assert_allclose(
            said[f"/uncertainty{output}/mean"], mean, rtol=1e-4, atol=1e-6
        )


@pytest.mark.slow
@every_case
def test_another_process_goes_on(models, loaded, name):
    model, x, y, _, said = models[0][name]
    for path, values in said.items():
        np.testing.assert_allclose(
            loaded[name][path], values, rtol=1e-5, atol=1e-6, err_msg=path
        )
    # Keras before 3.15 goes on adding to the sums of earlier training.
    model.reset_metrics()
    trained = model.train_on_batch(x, y, return_dict=True)
    for log, value in trained.items():
        assert loaded[name][f"/trained/{log}"] == pytest.approx(value, rel=1e-4), log


@pytest.mark.few(1)
@every_case
def test_it_is_served(models, name, tmp_path):
    model, x, _, _, _said = models[0][name]
    path = model.export(tmp_path, signatures=("sample", "deterministic"))
    served = tf.saved_model.load(path).signatures
    scalars = {"num_samples": tf.constant(3), "seed": tf.constant(1)}
    inputs = {"inputs": tf.constant(x)}
    samples = served["sample"](**inputs, **scalars)
    centre = served["deterministic"](**inputs)
    # Training in another test has changed the weights.
    expected = {
        "samples": model.predict_samples(x, **every_option.ASKED),
        "mean": model.predict(x, num_samples=0, verbose=0),
    }
    for answers in (samples, centre):
        for key, values in answers.items():
            *output, what = key.split("_")
            wanted = expected[what]
            wanted = wanted[output[0]] if output else wanted
            np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5)


def replicas(run_python, names):
    output = run_python(every_option.__file__, "replicas", *names)()
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_two_replicas(run_python):
    names = every_option.OF_REPLICAS
    assert replicas(run_python, names) == {"ran": [*names], "failures": {}}


@pytest.mark.slow
def test_all_under_two_replicas(run_python):
    names = [*every_option.CASES]
    assert replicas(run_python, names) == {"ran": names, "failures": {}}
