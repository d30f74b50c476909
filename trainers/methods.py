"""Names, hypernets and training of what the experiments compare."""

import keras

from bhn_tf import hypernets
from trainers.config import CommonConfig

#: What pictures and tables call each --hypernet.
HYPERNET_NAMES = {
    "realnvp": "RealNVP",
    "iaf": "IAF",
    "chunked": "chunked RealNVP",
    "mean_field": "mean field",
}
#: What pictures and tables call each method.
METHOD_NAMES = {
    "bhn": "Bayesian hypernet",
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "ensemble": "deep ensemble",
    "bayes_by_backprop": "Bayes by Backprop",
    **{f"bhn_{family}": f"BHN, {name}" for family, name in HYPERNET_NAMES.items()},
}


def hypernet(
    config: CommonConfig, family: str = "", conditioners=None, **options
) -> hypernets.Hypernet:
    """The hypernet that --hypernet, --num_flow_layers and --flow_units describe.

    Args:
        config: The flags.
        family: A key of `HYPERNET_NAMES` in place of --hypernet.
        conditioners: Options of the conditioners that a flow has, by name.
        **options: `initial_stddev` and `initial_mean`, at which it starts.
    """
    family = family or config.hypernet
    if family == "mean_field":
        return hypernets.MeanField(**options)
    flow = {
        "realnvp": hypernets.RealNVP,
        "iaf": hypernets.IAF,
        "chunked": hypernets.Chunked,
    }[family]
    return flow(
        num_layers=config.num_flow_layers,
        hidden_units=config.flow_units,
        **(conditioners or {}),
        **options,
    )


def compiled(
    model, config: CommonConfig, num_steps: int, metrics=("accuracy",), **options
) -> keras.Model:
    """Compiles a model with Adam, whose learning rate falls to zero over the run.

    Args:
        model: The model, which is returned.
        config: Learning rate, and whether to use XLA.
        num_steps: Steps of the whole run.
        metrics: What is measured while training.
        **options: Further arguments of `compile`.
    """
    schedule = keras.optimizers.schedules.CosineDecay(config.learning_rate, num_steps)
    model.compile(
        keras.optimizers.Adam(schedule),
        metrics=list(metrics),
        jit_compile=config.jit_compile or "auto",
        **options,
    )
    return model


def print_steps(done: int, total: int) -> None:
    """Prints how far chains have come, ten times a run."""
    if done == total or done % max(total // 10 // 25 * 25, 25) == 0:
        print(f"  step {done}/{total}", flush=True)
