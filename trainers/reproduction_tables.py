"""Tables of `trainers.reproduce`: a row for each command, with the paper's number."""

from trainers.reproduction_rows import BOUND, MEASURES, SECONDS, Measure, Row, Table

_MNIST = {"dataset": "mnist", "anomalies": "uniform,fashion_mnist"}
_DROPOUT = {"methods": "mc_dropout"}
# The paper's posterior, over scales of outputs alone, and its objective, the bound.
_PAPERS = {
    "random": "scale",
    "initial_stddev": 0.3,
    "kl_weight": 1.0,
    "input_dropout": 0.0,
}


def _hypernet(num_layers: int, family: str = "realnvp", **flags) -> dict:
    """Flags of one hypernet; L = 0 is the mean field."""
    if not num_layers:
        return {"methods": "bhn", "hypernet": "mean_field", **flags}
    chosen = {"hypernet": family, "num_flow_layers": num_layers}
    return {"methods": "bhn", **chosen, **flags}


def _rows_of_one_run(methods: dict[str, str]) -> tuple[Row, ...]:
    """A row for each method of a trainer that compares them in one run."""
    return tuple(Row("all", label, method, {}) for method, label in methods.items())


_MAIN_JOB = Table(
    name="main_job",
    title="The main job",
    trainer="classification",
    num_runs=5,
    common={},
    rival="MC dropout",
    rows=_rows_of_one_run(
        {
            "bhn": "Bayesian hypernet",
            "mc_dropout": "MC dropout",
            "deterministic": "deterministic",
        }
    ),
    measures=(
        *MEASURES,
        Measure("auroc/uniform", "AUROC uniform"),
        Measure("auroc/photographs", "AUROC photographs"),
        SECONDS,
    ),
)

_MNIST_5000 = Table(
    name="mnist_5000",
    title="MNIST, 5,000 training digits (A)",
    trainer="classification",
    num_runs=10,
    common={**_MNIST, "train_size": 5000},
    rival="MC dropout",
    measures=(
        *MEASURES,
        Measure("auroc/uniform", "AUROC uniform"),
        Measure("auroc/fashion_mnist", "AUROC fashion_mnist"),
        *BOUND,
        SECONDS,
    ),
    rows=(
        Row("bhn_l2", "BHN, L = 2", "bhn", _hypernet(2), "94.25 (L = 8)", 1.3),
        Row("dropout", "MC dropout", "mc_dropout", _DROPOUT, "95.58", 1),
        Row("bhn_l0", "BHN, L = 0", "bhn", _hypernet(0, kl_weight=1.0), "92.06", 1),
    ),
)

# The bound itself is the objective, without dropout of inputs.
_FLOW = Table(
    name="flow",
    title="What a flow adds",
    trainer="classification",
    num_runs=10,
    common={
        **_MNIST,
        "train_size": 5000,
        "kl_weight": 1.0,
        "input_dropout": 0.0,
        "prior_center": "zero",
    },
    rival="L = 0",
    rows=(
        Row("l0", "L = 0", "bhn", _hypernet(0), "", 1),
        Row("l2", "RealNVP, L = 2", "bhn", _hypernet(2), "", 1.3),
    ),
    measures=(*MEASURES, *BOUND, SECONDS),
)

# The paper's posterior, with only the flow and its depth changed.
_DEPTH = Table(
    name="depth",
    title="Depth of the flow",
    trainer="classification",
    num_runs=3,
    common={**_MNIST, "train_size": 5000, **_PAPERS},
    rival="L = 0",
    rows=(
        Row("l0", "L = 0", "bhn", _hypernet(0), "92.06", 1),
        Row("l2", "RealNVP, L = 2", "bhn", _hypernet(2), "", 1),
        Row("l8", "RealNVP, L = 8", "bhn", _hypernet(8), "94.25", 2),
        Row("iaf8", "IAF, L = 8", "bhn", _hypernet(8, "iaf"), "", 4),
        Row("l12", "RealNVP, L = 12", "bhn", _hypernet(12), "96.16", 3),
    ),
)

_MNIST_50000 = Table(
    name="mnist_50000",
    title="MNIST, 50,000 training digits",
    trainer="classification",
    num_runs=1,
    full={"num_runs": 3},
    common={**_MNIST, "train_size": 50_000, "subset": "first", "epochs": 60},
    rival="MC dropout",
    rows=(
        Row("bhn_l2", "BHN, L = 2", "bhn", _hypernet(2), "98.39", 6),
        Row("dropout", "MC dropout", "mc_dropout", _DROPOUT, "98.73", 4),
        Row("bhn_l0", "BHN, L = 0", "bhn", _hypernet(0, kl_weight=1.0), "98.28", 4.5),
        Row(
            "papers_l8",
            "the paper's scales, L = 8",
            "bhn",
            _hypernet(8, **_PAPERS),
            "98.63",
            8,
        ),
        Row(
            "deterministic",
            "deterministic",
            "deterministic",
            {"methods": "deterministic"},
            "",
            3,
        ),
        Row(
            "backprop",
            "Bayes by Backprop",
            "bayes_by_backprop",
            {"methods": "bayes_by_backprop"},
            "98.01",
            9,
        ),
    ),
)

_ABLATIONS = Table(
    name="ablations",
    title="Ablations",
    trainer="classification",
    num_runs=3,
    common={**_MNIST, "train_size": 5000},
    rival="as it is",
    rows=(
        Row("default", "as it is", "bhn", _hypernet(2), "", 1.3),
        Row("groups16", "16 draws a batch", "bhn", _hypernet(2, noise_groups=16)),
        Row("rows", "a draw for each row", "bhn", _hypernet(2, noise_groups=0)),
        Row("clip", "the paper's clip", "bhn", _hypernet(2, clip=True)),
        Row("outputs", "scales of outputs alone", "bhn", _hypernet(2, random="scale")),
        Row("all", "inputs of all layers", "bhn", _hypernet(2, random="rank_one")),
        Row("bound", "the KL's weight 1", "bhn", _hypernet(2, kl_weight=1.0)),
        Row("inputs", "no dropout of inputs", "bhn", _hypernet(2, input_dropout=0.0)),
        Row(
            "zero", "a prior around 0 for all", "bhn", _hypernet(2, prior_center="zero")
        ),
        Row("std0.1", "σ = 0.1 at first", "bhn", _hypernet(2, initial_stddev=0.1)),
        Row("prior2", "prior's std 2", "bhn", _hypernet(2, prior_stddev=2.0)),
    ),
)

_CIFAR10_FLAGS = {
    "dataset": "cifar10",
    "train_size": 10_000,
    "network": "cnn",
    "units": "512",
    "epochs": 20,
    "anomalies": "uniform",
    "random": "scale",
    "input_dropout": 0.0,
}
_CIFAR10 = Table(
    name="cifar10",
    title="CIFAR-10, 10,000 training images",
    trainer="classification",
    num_runs=1,
    common=_CIFAR10_FLAGS,
    full={
        "title": "CIFAR-10",
        "num_runs": 3,
        "common": {**_CIFAR10_FLAGS, "train_size": 0, "epochs": 100},
    },
    rival="dropout",
    rows=(
        Row("bhn_l4", "BHN, L = 4", "bhn", _hypernet(4), "74.77 (50,000)", 45),
        Row(
            "dropout",
            "dropout",
            "mc_dropout",
            {"methods": "mc_dropout"},
            "74.08 (50,000)",
            35,
        ),
        Row(
            "deterministic",
            "deterministic",
            "deterministic",
            {"methods": "deterministic"},
            "72.75 (50,000)",
            35,
        ),
        Row(
            "bhn_l4_std0.1",
            "BHN, L = 4, σ = 0.1 at first, 16 draws a batch",
            "bhn",
            _hypernet(4, initial_stddev=0.1, noise_groups=16),
            "74.77 (50,000)",
            40,
        ),
        Row("bhn_l0", "BHN, L = 0", "bhn", _hypernet(0), "67.83 (50,000)", 40),
    ),
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
    rows=_rows_of_one_run({**_LABELS, "bhn": "BHN, RealNVP"}),
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
    rows=_rows_of_one_run(
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
    rows=_rows_of_one_run(
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
    _MNIST_5000,
    _MAIN_JOB,
    *_FINETUNING,
    _FLOW,
    _ABLATIONS,
    _DEPTH,
    _MNIST_50000,
    _CIFAR10,
    _ANOMALIES,
    _UNSEEN_CLASSES,
    _ADVERSARIES,
    _ACTIVE_LEARNING,
)
