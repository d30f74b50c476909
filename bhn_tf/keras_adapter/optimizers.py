"""What an optimizer trains, at which rates, and what it does not let decay."""

import keras


def not_trained_by(optimizer: keras.optimizers.Optimizer, variables) -> list[str]:
    """Returns the paths of variables for which a built optimizer was not built.

    Keras does not train these in a step that is already compiled, without a word, and
    fails in the middle of one that is not. An optimizer of one's own, such as one that
    wraps another, may keep them in another place: then there are none.
    """
    trained = getattr(optimizer, "_trainable_variables", None) or variables
    known = {id(variable) for variable in trained}
    return [variable.path for variable in variables if id(variable) not in known]


def optimizers_inside(optimizer: keras.optimizers.Optimizer) -> list:
    """Returns the optimizers that do the steps of one that may be around others."""
    inner = _inner(optimizer)
    return getattr(inner, "optimizers", [inner])


def has_spent_schedules(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether schedules have brought all learning rates down to 0.

    Before the first step they may warm up from it; and a rate that is no schedule may
    be set by a callback.
    """
    return int(optimizer.iterations) > 0 and all(
        isinstance(
            getattr(each, "_learning_rate", None),
            keras.optimizers.schedules.LearningRateSchedule,
        )
        and float(each.learning_rate) == 0
        for each in optimizers_inside(optimizer)
    )


def without_weight_decay(optimizer, weights) -> list[int]:
    """Returns the places of weights that `exclude_from_weight_decay` has named."""
    decays = getattr(_inner(optimizer), "_use_weight_decay", lambda weight: True)
    return [place for place, weight in enumerate(weights) if not decays(weight)]


def exclude_from_weight_decay(optimizer, weights) -> None:
    """Excludes weights, as an optimizer's configuration does not tell."""
    _inner(optimizer).exclude_from_weight_decay(weights)


def _inner(optimizer):
    """The optimizer inside one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)
