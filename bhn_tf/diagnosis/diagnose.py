"""One call that looks at a posterior from all sides."""

from bhn_tf.arguments import check_count, check_probability
from bhn_tf.data_feeds import labelled_rows
from bhn_tf.diagnosis import averaging, monte_carlo, reliability, widths
from bhn_tf.diagnosis import layer_posteriors as of_layers
from bhn_tf.diagnosis.findings import Finding, mean_of
from bhn_tf.diagnosis.measured_rows import (
    chosen_rows,
    is_classifier,
    measure,
)
from bhn_tf.diagnosis.result import Diagnosis
from bhn_tf.models.baseline_posteriors import MemberPosterior
from bhn_tf.models.bound import Bound
from bhn_tf.models.draws import PointPosterior
from bhn_tf.models.other_models import require_predictive_model

# Relative error allowed in N, such as by rows that an epoch leaves out.
_TOLERATED_N = 0.02
# For the widths. Each pair is two draws, and the values of a layer are averaged.
_NUM_PAIRS = 16
_MOST_ROWS_OF_WIDTHS = 500


def diagnose(
    model,
    x,
    y=None,
    num_samples: int = 32,
    seed: int = 0,
    level: float = 0.9,
    num_train: int | None = None,
    max_rows: int | None = 2000,
) -> Diagnosis:
    """Says whether a posterior is any good, and what to do if it is not.

    For each layer: whether it has collapsed to the prior, or is far surer than the data
    allow. For the whole: what averaging gains over the model's own centre, the Monte
    Carlo error at this S and a sufficient S, whether N and the weight of the KL match
    the training, calibration or coverage, and whether a flow adds anything to a mean
    field. `docs/diagnosis.md` says how each is decided.

    Args:
        model: A trained `BayesianHypernet`, `MCDropout` or `DeepEnsemble`. The latter
            two have neither prior nor N: only their draws and predictions are examined.
        x, y: Arrays of rows, preferably not seen in training, where calibration looks
            too good.
        num_samples: S, at least 2: the number you predict with.
        seed: Seed of draws, rows and resampling.
        level: Probability of the intervals whose coverage is measured.
        num_train: The number of training examples; `None` for what the last `fit` of
            arrays counted.
        max_rows: The most rows to measure, chosen at random; `None` for all.

    Returns:
        A `Diagnosis`: `print` it, look at its `findings`, `plot` it.

    Raises:
        TypeError: If the model is none of these.
        ValueError: If it has only one network, nothing random or no N, labels have no
            meaning, or the model answers NaN.

    Example:
    ```python
    diagnosis = bhn_tf.diagnose(model, x_test, y_test)
    print(diagnosis)
    ```
    """
    _require_draws(model)
    check_count("num_samples", num_samples, minimum=2)
    check_count("seed", seed, minimum=0)
    for name, value in (("num_train", num_train), ("max_rows", max_rows)):
        if value is not None:
            check_count(name, value, minimum=2)
    check_probability("level", level)
    reason = "some of them are chosen at random, and all have a label"
    labelled_rows(x, y, "diagnose(model, x, y)", reason)
    model.check_data(x, y)
    rows = chosen_rows(x, y, max_rows, seed)
    draws = model.posterior.draw(num_samples, seed)
    measured = measure(model, rows, draws.values, level)
    measurements, findings = _of_predictions(model, measured, seed, level)
    layers = []
    if isinstance(model.objective, Bound):
        objective = model.objective
        layers, of_q, found = _of_posterior(model, rows, seed)
        measurements |= of_q
        findings += found + _of_settings(objective, num_train)
    findings.sort(key=lambda finding: finding.severity != "warning")
    return Diagnosis(
        type(model).__name__,
        len(measured.log_probs),
        measured.log_probs.shape[1],
        tuple(layers),
        measurements,
        tuple(findings),
    )


def _require_draws(model):
    require_predictive_model(model)
    if isinstance(model.posterior, PointPosterior):
        raise ValueError(
            f"{type(model).__name__} is one network, without a posterior to diagnose. "
            "`bhn_tf.conformal.calibrate` measures its calibration; "
            "`bhn_tf.from_keras` makes it Bayesian."
        )
    if isinstance(model.posterior, MemberPosterior) and len(model.members) == 1:
        raise ValueError(
            "An ensemble of one network has no posterior to diagnose. Give it more "
            "members."
        )
    if isinstance(model.objective, Bound):
        if not model.num_random:
            raise ValueError(
                "Nothing in this network is random (D = 0): all draws are the same. "
                "Use `bhn_tf.layers`, or `bhn_tf.from_keras`."
            )
        model.objective.require_num_examples()


def _of_predictions(model, measured, seed, level):
    """Averaging, Monte Carlo error and calibration."""
    classifies = is_classifier(model)
    log_probs = averaging.predictive_log_probs(measured)
    are_possible, findings = averaging.possible_labels(log_probs)
    possible = measured.where(are_possible)
    gained = averaging.gains(possible, classifies, seed)
    measurements = {"nll": mean_of(-log_probs)}
    measurements |= {f"gain_of_{name}": gain for name, gain in gained.items()}
    findings += averaging.findings(gained)
    if not isinstance(model.posterior, MemberPosterior):
        errors = monte_carlo.monte_carlo(possible, classifies)
        found = {f"monte_carlo_{k}": v for k, v in errors._asdict().items()}
        measurements |= {k: v for k, v in found.items() if v is not None}
        findings += monte_carlo.findings(errors, measured.log_probs.shape[1])
    more: list[Finding] = []
    if classifies:
        found, more = reliability.calibration_error(measured, seed)
        measurements |= found
    elif measured.bounds is not None:
        # `Standardized` wraps the likelihood that knows whether it is discrete.
        likelihood = getattr(model.likelihood, "likelihood", model.likelihood)
        found, more = reliability.coverage(measured, level, likelihood.is_discrete)
        measurements |= found
    return measurements, findings + more


def _of_posterior(model, rows, seed):
    """Widths, collapse, and what a flow adds."""
    few = chosen_rows(*rows, _MOST_ROWS_OF_WIDTHS, seed)
    relative = widths.relative_variances(model, few, _NUM_PAIRS, seed)
    draws, log_prob = of_layers.draws_of(model, seed)
    layers = of_layers.layer_posteriors(model, draws, relative)
    findings: list[Finding] = []
    for layer in layers:
        # A collapsed layer is too wide as well, so that is not reported again.
        findings += of_layers.collapsed(layer) or widths.findings(
            layer.name, layer.width, model.num_examples
        )
    measurements = {"kl": mean_of(log_prob - model.prior.log_prob(draws).numpy())}
    if model.hypernet.flow_steps:
        correlation = of_layers.total_correlation(draws, log_prob)
        measurements["total_correlation"] = correlation
        findings += of_layers.idle_flow(correlation, model)
    return layers, measurements, findings


def _of_settings(objective: Bound, num_train):
    """Whether N and the weights of terms are those of the evidence lower bound."""
    counted = num_train or objective.examples.counted
    return [
        *_of_num_examples(objective.examples.value, counted),
        *_of_kl_weight(objective.settled_kl_weight),
        *_of_loss_weights(objective.loss_weights),
    ]


def _of_num_examples(told, counted) -> list[Finding]:
    if not (told and counted) or abs(told / counted - 1) <= _TOLERATED_N:
        return []
    surer = "surer" if told > counted else "less sure"
    return [
        Finding(
            name="num_examples",
            layer=None,
            severity="warning",
            value=float(told),
            message=f"N is {told:,}, and the training had {counted:,} examples: the "
            f"posterior is as if there were {told / counted:.3g} times as many, "
            f"{surer} than the data allow.",
            mend=f"Set `model.num_examples = {counted}`, or leave it out for `fit` to "
            "count, and train on.",
        )
    ]


def _of_kl_weight(weight) -> list[Finding]:
    if weight == 1.0:
        return []
    return [
        Finding(
            name="kl_weight",
            layer=None,
            severity="note",
            value=weight,
            message=f"The KL was weighted {weight:.3g} times: what is trained is no "
            "bound of the evidence.",
            mend="Compile with `kl_weight=1.0` and train on, or report it: widths are "
            "measured against a weight of 1.",
        )
    ]


def _of_loss_weights(weights) -> list[Finding]:
    if all(weight == 1.0 for weight in weights):
        return []
    return [
        Finding(
            name="loss_weights",
            layer=None,
            severity="note",
            value=max(weights),
            message=f"Outputs were weighted {weights}: each counts as if there were so "
            "many times its examples, and a layer is surer, or less sure, than "
            "the data allow.",
            mend="Compile without `loss_weights` and train on, or report it: widths "
            "are measured against weights of 1.",
        )
    ]
