"""Warnings that name the line of the user's code that they concern."""

import contextlib
import inspect
import os
import types
import warnings

import keras
import tensorflow as tf

# Code that may lie between that line and the warning: this library, libraries that call
# it back, and `with` statements.
_NOT_THE_USERS = (
    *(
        os.path.join(os.path.dirname(path), "")
        for path in (__file__, keras.__file__, tf.__file__)
    ),
    contextlib.__file__,
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line outside of this library, Keras and TensorFlow.

    Args:
        message: What the user should know, and do.
        category: As in `warnings.warn`.
    """
    frame, stacklevel = inspect.currentframe(), 1
    while (
        frame is not None
        and frame.f_back is not None
        and frame.f_code.co_filename.startswith(_NOT_THE_USERS)
    ):
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(message, category, stacklevel=stacklevel)


def warn_unless_registered(given) -> None:
    """Warns of what Keras would silently save but could not load again.

    Args:
        given: A function, or an object of a class that may be the user's own.
    """
    kind = given if isinstance(given, types.FunctionType) else type(given)
    name = keras.saving.get_registered_name(kind)
    if keras.saving.get_registered_object(name) is not None:
        return
    if hasattr(given, "get_config"):
        what, but, mend = f"The class {kind.__name__}", "", "Write its class"
    else:
        what, but = repr(given), " (with a lambda, only with `safe_mode=False`)"
        mend = "Write it as `def` with a name of its own,"
    warn_user(
        f"{what} is not registered: a saved model will be loaded only with "
        f"`custom_objects`{but}. {mend} behind "
        "`@keras.saving.register_keras_serializable()`.",
    )
