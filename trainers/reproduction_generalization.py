"""Tables of how well networks classify what they have not seen: the paper's Table 1."""

import dataclasses

from trainers.reproduction_rows import (
    BOUND,
    MEASURES,
    SECONDS,
    Measure,
    Row,
    Table,
    rows_of_one_run,
)

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


MAIN_JOB = Table(
    name="main_job",
    title="The main job",
    trainer="classification",
    num_runs=5,
    common={},
    rival="MC dropout",
    rows=rows_of_one_run(
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

MNIST_5000 = Table(
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

MNIST_5000_FIRST = dataclasses.replace(
    MNIST_5000,
    name="mnist_5000_first",
    title="MNIST, the first 5,000 training digits (A)",
    num_runs=3,
    common={**MNIST_5000.common, "subset": "first"},
)

MNIST_5000_B = dataclasses.replace(
    MNIST_5000,
    name="mnist_5000_b",
    title="MNIST, 5,000 training digits (B)",
    num_runs=3,
    common={**MNIST_5000.common, "units": "1200,1200"},
    rows=(
        Row("bhn_l2", "BHN, L = 2", "bhn", _hypernet(2), "96.27 (L = 8)", 2),
        Row("dropout", "MC dropout", "mc_dropout", _DROPOUT, "95.52", 1.5),
        Row("bhn_l0", "BHN, L = 0", "bhn", _hypernet(0, kl_weight=1.0), "90.91", 1.5),
        Row(
            "papers_l12",
            "the paper's scales, L = 12",
            "bhn",
            _hypernet(12, **_PAPERS),
            "96.51",
            5,
        ),
    ),
)

# The bound itself is the objective, without dropout of inputs.
FLOW = Table(
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
DEPTH = Table(
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

MNIST_50000 = Table(
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
        Row("dropout", "dropout, without MC", "mc_dropout/center", _DROPOUT),
        Row("bhn_l0", "BHN, L = 0", "bhn", _hypernet(0, kl_weight=1.0), "98.28", 4.5),
        *(
            Row(
                f"papers_l{num_layers}",
                f"the paper's scales, L = {num_layers}",
                "bhn",
                _hypernet(num_layers, **_PAPERS),
                paper,
                minutes,
            )
            for num_layers, paper, minutes in (
                (4, "98.47", 12),
                (6, "98.59", 16),
                (8, "98.63", 20),
            )
        ),
        Row(
            "papers_iaf8",
            "the paper's scales, IAF, L = 8",
            "bhn",
            _hypernet(8, "iaf", **_PAPERS),
            "",
            25,
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

ABLATIONS = Table(
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
        Row(
            "plain_flow",
            "no weight norm in the flow",
            "bhn",
            _hypernet(2, flow_weight_norm=False),
        ),
        Row(
            "large_flow",
            "large weights in the flow at first",
            "bhn",
            _hypernet(2, flow_initial_scale=1.0),
        ),
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
CIFAR10 = Table(
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
        Row("bhn_l8", "BHN, L = 8", "bhn", _hypernet(8), "74.90 (50,000)", 50),
    ),
)
