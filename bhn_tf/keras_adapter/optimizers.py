"""What an optimizer trains."""

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
