"""Tables of `trainers.reproduce`: a row for each command, with the paper's number."""

from trainers.reproduction_generalization import (
    ABLATIONS,
    CIFAR10,
    DEPTH,
    FLOW,
    MAIN_JOB,
    MNIST_5000,
    MNIST_5000_B,
    MNIST_5000_FIRST,
    MNIST_50000,
)
from trainers.reproduction_rows import (
    MEASURES,
    SECONDS,
    Measure,
    Row,
    Table,
    rows_of_one_run,
)

_LABELS = {
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "ensemble": "deep ensemble of 5",
}


_OTHERS = (
    "uniform",
    "gaussian",
    "omniglot",
    "cifar10",
    "fashion_mnist",
    "font_letters",
)
_ANOMALY_FLAGS = {"dataset": "mnist", "anomalies": ",".join(_OTHERS)}
_ANOMALIES = Table(
    name="anomalies",
    title="What is unlike the training data",
    trainer="anomaly_detection",
    num_runs=3,
    common={**_ANOMALY_FLAGS, "train_size": 5000},
    full={
        "num_runs": 5,
        "common": {**_ANOMALY_FLAGS, "train_size": 50_000, "subset": "first"},
    },
    rival="MC dropout",
    rows=rows_of_one_run({**_LABELS, "bhn": "BHN, RealNVP"}),
    measures=(
        *(
            Measure(f"detection/{name}/max_probability/auroc", name, 2, factor=100)
            for name in _OTHERS
        ),
        Measure(
            "error_detection/max_probability/auroc", "its own errors", 2, factor=100
        ),
        Measure("accuracy", "accuracy", 2, factor=100),
        SECONDS,
    ),
)

# A digit is left out of the training rows; its rows are to be told from the others.
_UNSEEN_FLAGS = {"dataset": "mnist", "anomalies": ""}
_UNSEEN_CLASSES = Table(
    name="unseen_classes",
    title="Unseen classes",
    trainer="anomaly_detection",
    num_runs=10,
    varied="exclude_class",
    unit="digit",
    common={"anomalies": ""},
    full={"common": {**_UNSEEN_FLAGS, "train_size": 50_000, "subset": "first"}},
    rival="MC dropout",
    rows=(
        Row("all", "deterministic", "deterministic", {}, "93.47, –, –"),
        Row("all", "MC dropout", "mc_dropout", {}, "95.15, 95.42, 95.37"),
        Row("all", "deep ensemble of 5", "ensemble", {}),
        Row("all", "BHN, RealNVP", "bhn", {}, "93.26, 93.20, 93.27 (L = 8)"),
    ),
    measures=(
        *(
            Measure(
                f"detection/class */{score}/auroc",
                f"AUROC, {score.replace('_', ' ')}",
                2,
                factor=100,
            )
            for score in ("max_probability", "mean_std", "mutual_information")
        ),
        Measure("accuracy", "accuracy of the others", 2, False, factor=100),
        SECONDS,
    ),
)

_ADVERSARIES = Table(
    name="adversaries",
    title="Adversaries",
    trainer="adversarial_detection",
    num_runs=3,
    common={},
    rival="MC dropout",
    rows=rows_of_one_run(
        {**_LABELS, "bhn_realnvp": "BHN, RealNVP", "bhn_iaf": "BHN, IAF"}
    ),
    measures=(
        Measure("accuracy", "accuracy, clean", 2, factor=100),
        *(
            Measure(
                f"attacks/{attack}/mean_adversary_auroc/{score}",
                f"{label}, {score.replace('_', ' ')}",
                2,
                factor=100,
            )
            for attack, label in (
                ("draws_1", "1 draw"),
                ("draws_32", "32 draws"),
                ("transfer", "transfer"),
            )
            for score in ("mutual_information", "predictive_entropy")
        ),
        SECONDS,
    ),
)


_ACTIVE_FLAGS = {
    "dataset": "mnist",
    "methods": "bhn,mc_dropout",
    "acquisitions": "bald,random",
    "num_seeds": 1,
    "epochs": 100,
    "learning_rate": 2e-3,
    "num_flow_layers": 2,
    "flow_units": 50,
    "initial_stddev": 0.3,
    "kl_weight": 0.5,
    "target_accuracy": 0.95,
    "stop_at_target": True,
}
# Gal's network and protocol, with a quarter of its filters and twice its questions.
_ACTIVE_LEARNING = Table(
    name="active_learning",
    title="Active learning",
    trainer="active_learning",
    num_runs=3,
    common={
        **_ACTIVE_FLAGS,
        "num_rounds": 40,
        "query_size": 20,
        "candidate_size": 1_000,
        "num_samples": 10,
        "filters": 8,
        "units": 128,
    },
    full={"common": _ACTIVE_FLAGS},
    rival="BHN, random",
    rows=rows_of_one_run(
        {
            "bhn-bald": "BHN, BALD",
            "bhn-random": "BHN, random",
            "mc_dropout-bald": "MC dropout, BALD",
            "mc_dropout-random": "MC dropout, random",
        }
    ),
    measures=tuple(
        Measure(f"labels_for/{share}", f"labels for {share} %", 0, is_better_low=True)
        for share in (90, 95)
    ),
)


def _finetuning(name: str, title: str, anomalies: tuple[str, ...], **flags) -> Table:
    """The table of a trained network beside its Bayesian version."""
    return Table(
        name=name,
        title=title,
        trainer="finetune",
        num_runs=3,
        common={"anomalies": ",".join(anomalies), **flags},
        rival="as it was trained",
        rows=(
            Row("all", "as it was trained", "original", {}, "", 6),
            Row("all", "two epochs more, without noise", "continued", {}, "", 6),
            Row("all", "two epochs more, as a BHN", "bayesian", {}, "", 6),
        ),
        measures=(
            *MEASURES,
            *(Measure(f"auroc/{set_}", f"AUROC {set_}") for set_ in anomalies),
            SECONDS,
        ),
    )


_NOT_MNIST = ("uniform", "fashion_mnist", "font_letters")
_FINETUNING = (
    _finetuning("finetune_cnn", "A CNN", _NOT_MNIST, dataset="mnist"),
    _finetuning(
        "finetune_batch_norm",
        "A CNN with batch normalisation",
        _NOT_MNIST,
        dataset="mnist",
        network="batch_norm_cnn",
    ),
    _finetuning(
        "finetune_gru",
        "A GRU of characters",
        ("uniform", "backwards", "source_code"),
        dataset="python_manual",
        network="gru",
    ),
)

TABLES = (
    MNIST_5000,
    MNIST_5000_FIRST,
    MNIST_5000_B,
    MAIN_JOB,
    *_FINETUNING,
    FLOW,
    ABLATIONS,
    DEPTH,
    MNIST_50000,
    CIFAR10,
    _ANOMALIES,
    _UNSEEN_CLASSES,
    _ADVERSARIES,
    _ACTIVE_LEARNING,
)
