"""Whether uncertainty rises where an attack is (paper, "Adversary Detection").

Bayesian hypernets, Monte Carlo dropout, a deep ensemble and a plain network learn one
data set. The fast gradient sign method then changes the test rows, along the gradient
of few draws, of many draws, or of the plain network, which knows nothing of the others.
The results for every step size are the accuracy, the uncertainty, and how well it tells
attacked rows from clean ones and wrong answers from right ones.

    python -m trainers.adversarial_detection
    python -m trainers.adversarial_detection --dataset=mnist --data_dir=... --noclip
"""

import dataclasses

import numpy as np

from bhn_tf import attacks, metrics, plots
from bhn_tf.tables import text_table
from trainers import experiment
from trainers.comparison import (
    ComparisonConfig,
    predict_uncertainty,
    require_models,
    train_methods,
    training_rows,
)
from trainers.config import at_least, flag, run_binary
from trainers.image_sets import load_splits, num_classes
from trainers.methods import METHOD_NAMES
from trainers.run_folder import RunFolder

_PLAIN = "deterministic"
_METHODS = (_PLAIN, "mc_dropout", "ensemble", "bhn_realnvp", "bhn_iaf")
_TRANSFER = "transfer"
_SCORES = ("max_probability", "mutual_information", "predictive_entropy", "mean_std")
# The part of results.json that the table shows.
_SHOWN_SCORE, _SHOWN_EPSILON = "predictive_entropy", 0.1


@dataclasses.dataclass(frozen=True)
class Config(ComparisonConfig):
    """Configuration of `trainers.adversarial_detection`."""

    ensemble_size: int = flag(5, "Members of the deep ensemble.", **at_least(2))
    # The authors' code has this number, and the step sizes below.
    num_samples: int = flag(20, "S, draws of each prediction.", **at_least(1))
    epsilons: tuple = flag(
        (
            0.001,
            0.002,
            0.003,
            0.004,
            0.005,
            0.008,
            0.01,
            0.012,
            0.015,
            0.02,
            0.025,
            0.03,
            0.04,
            0.05,
            0.075,
            0.1,
            0.15,
            0.2,
            0.3,
            0.5,
        ),
        "Step sizes, in the units of images in [0, 1].",
        check=lambda v: v and all(0 <= step <= 1 for step in v) and max(v) > 0,
        advice="numbers from 0 to 1 separated by commas, not only 0",
    )
    gradient_samples: tuple = flag(
        (1, 32),
        "Draws of the gradient, one attack for each number; 0 for the centre.",
        check=lambda v: v and len(set(v)) == len(v) and min(v) >= 0,
        advice="different numbers of at least 0 separated by commas, such as 1,32",
    )
    clip: bool = flag(True, "Keep attacked images in [0, 1].")


@dataclasses.dataclass
class AdversarialDetection:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "adversarial_detection"

    def load(self) -> dict:
        splits = load_splits(self.config)
        shape = splits["test"][0].shape[1:]
        names = _compared(self.config)
        require_models(names, self.config, shape, num_classes(splits))
        return {**splits, "train": training_rows(self.config, *splits["train"])}

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        return _train_and_attack(self.config, folder, sets)

    def table(self, results: dict) -> str:
        epsilons = results["epsilons"]
        # The nearest step; of two equally near, the larger.
        shown = min(
            range(len(epsilons)), key=lambda i: (abs(epsilons[i] - _SHOWN_EPSILON), -i)
        )
        at = f"at {epsilons[shown]:g}"
        rows = [["", "method", "accuracy", at, f"adversaries {at}", f"errors {at}"]]
        first, *_ = results["methods"].values()
        for attack in first["attacks"]:
            for index, (method, found) in enumerate(results["methods"].items()):
                curves = found["attacks"][attack]
                values = [
                    curves["accuracy"][0],
                    curves["accuracy"][shown],
                    curves["adversary_auroc"][_SHOWN_SCORE][shown],
                    curves["error_auroc"][_SHOWN_SCORE][shown],
                ]
                names = ["" if index else attack, METHOD_NAMES[method]]
                rows.append(
                    names + ["-" if v is None else f"{100 * v:.2f}" for v in values]
                )
        return text_table(rows, numbers=range(1, len(rows[0])))

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nIn percent, by {_SHOWN_SCORE}: how well it tells attacked rows from "
            "clean ones,\nand rows that are answered wrongly from those answered "
            "rightly (AUROC, 50 is chance).\nAll scores and step sizes, and pictures: "
            f"{folder.path}/"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(AdversarialDetection(config))


def _main(config: Config) -> str:
    return f"bhn_{config.hypernet}"


def _compared(config: Config) -> list[str]:
    return list(dict.fromkeys([*_METHODS, _main(config)]))


def _epsilons(config: Config) -> list[float]:
    """The step sizes in order, after 0 for the unchanged rows."""
    epsilons = sorted({*config.epsilons} - {0.0})
    return [0.0, *(epsilons[::-5][::-1] if config.is_smoke else epsilons)]


# -- the experiment ----------------------------------------------------------------


def _train_and_attack(config: Config, folder: RunFolder, sets: dict) -> dict:
    main = _main(config)
    measured = {}
    for method, model, seconds in train_methods(
        _compared(config),
        config,
        folder,
        *sets["train"],
        num_classes(sets),
    ):
        if method == _PLAIN:
            # Without draws, all attacks on a network are the same.
            from_plain = _direction(config, model, *sets["test"], num_samples=1)
            curves = _under_attack(config, model, *sets["test"], from_plain)
            by_attack = dict.fromkeys(_attack_names(config), curves)
        else:
            by_attack = {
                name: _under_attack(
                    config,
                    model,
                    *sets["test"],
                    from_plain
                    if name == _TRANSFER
                    else _direction(config, model, *sets["test"], number),
                )
                for name, number in _attack_names(config).items()
            }
        clean = next(iter(by_attack.values()))["accuracy"][0]
        measured[method] = {
            "accuracy": clean,
            "attacks": by_attack,
            "seconds": seconds,
        }
        if method == main:
            folder.save_model("model.keras", model)
            folder.export(model)
    results = {
        "methods": measured,
        "epsilons": _epsilons(config),
        "rows": {name: len(x) for name, (x, _) in sets.items()},
    }
    _draw_pictures(config, folder, results)
    return results


def _attack_names(config: Config) -> dict:
    """How many draws the gradient of each attack has, by its name."""
    return {f"draws_{n}": n for n in config.gradient_samples} | {_TRANSFER: None}


def _direction(config: Config, model, x, labels, num_samples: int) -> np.ndarray:
    # The attacker does not know the noise of the defender.
    seed = config.seed + 1
    return attacks.gradient_sign(model, x, labels, num_samples, seed)


def _under_attack(config: Config, model, x, labels, direction) -> dict:
    """The curves of one method under one attack, an entry for each step size.

    AUROCs of errors are `None` where all rows are wrong, or none is.
    """
    measures = ("uncertainty", "adversary_auroc", "error_auroc")
    curves = {name: {score: [] for score in _SCORES} for name in measures}
    curves["accuracy"] = []
    clean = None
    for epsilon in _epsilons(config):
        attacked = x + np.float32(epsilon) * direction
        if config.clip:
            attacked = np.clip(attacked, 0, 1)
        found = predict_uncertainty(config, model, attacked)
        clean = clean or found
        wrong = found["mean"].argmax(axis=-1) != labels
        curves["accuracy"].append(float(np.mean(~wrong)))
        for score in _SCORES:
            values = found[score]
            curves["uncertainty"][score].append(float(np.mean(values)))
            curves["adversary_auroc"][score].append(_auroc(clean[score], values))
            curves["error_auroc"][score].append(_auroc(values[~wrong], values[wrong]))
    # Leaves out the first step, 0, in which the rows are unchanged.
    curves["mean_adversary_auroc"] = {
        score: float(np.mean(aurocs[1:]))
        for score, aurocs in curves["adversary_auroc"].items()
    }
    return curves


def _auroc(scores_in, scores_out) -> float | None:
    if not len(scores_in) or not len(scores_out):
        return None
    return metrics.detection(scores_in, scores_out)["auroc"]


# -- what is drawn -------------------------------------------------------------------


def _title(attack: str, number: int | None) -> str:
    if attack == _TRANSFER:
        return f"attack made on the {METHOD_NAMES[_PLAIN]} network"
    return f"gradient of {number} draw{'' if number == 1 else 's'}"


def _draw_pictures(config: Config, folder: RunFolder, results: dict) -> None:
    """Draws the accuracy under all attacks, and how uncertainty finds each attack."""
    curves = {
        attack: {
            METHOD_NAMES[method]: found["attacks"][attack]
            for method, found in results["methods"].items()
        }
        for attack in _attack_names(config)
    }
    accuracy = {
        _title(attack, number): {m: c["accuracy"] for m, c in curves[attack].items()}
        for attack, number in _attack_names(config).items()
    }
    epsilons = results["epsilons"]
    pictures = {"accuracy": plots.attack_panels(epsilons, accuracy, "accuracy")}
    for attack, by_method in curves.items():
        for measure, y_label in (
            ("uncertainty", "mean over rows"),
            ("adversary_auroc", "AUROC, attacked against clean rows"),
            ("error_auroc", "AUROC, wrong against right answers"),
        ):
            has_units = measure == "uncertainty"
            panels = {
                score if has_units else "by " + score.replace("_", " "): {
                    m: c[measure][score] for m, c in by_method.items()
                }
                for score in _SCORES
            }
            pictures[f"{measure}_{attack}"] = plots.attack_panels(
                epsilons,
                panels,
                y_label,
                reference=None if has_units else 0.5,
                share_y=not has_units,
            )
    for name, figure in pictures.items():
        plots.save(figure, folder.file(f"{name}.png"))


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
