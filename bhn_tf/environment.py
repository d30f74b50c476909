"""Checks what is installed before anything else is imported."""

import importlib
import os
import re

# The same as in setup.py.
_OLDEST_KERAS = (3, 11)
_INSTALL_KERAS = "'keras>=3.11,<4'"


def require(module: str, install: str) -> None:
    """Imports a module, or says in one sentence what is missing and how to install it.

    Args:
        module: Name of the module.
        install: Arguments of `pip install` that provide it.

    Raises:
        ImportError: If the module cannot be imported.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"bhn_tf needs {module}, which cannot be imported ({error}); "
            f"install it with: pip install {install}"
        ) from error


def check_environment() -> None:
    """Refuses an environment in which the library cannot work.

    Raises:
        ImportError: If a package is missing, TensorFlow Probability does not fit
            Keras 3, or Keras runs on another backend.
    """
    require("tensorflow", "tensorflow")
    require("keras", _INSTALL_KERAS)
    import keras

    version = tuple(map(int, re.findall(r"\d+", keras.__version__)[:2]))
    if version < _OLDEST_KERAS:
        raise ImportError(
            f"bhn_tf needs Keras 3.11 or later and found {keras.__version__}; install "
            f"it with: pip install {_INSTALL_KERAS}"
        )
    if keras.backend.backend() != "tensorflow":
        raise ImportError(
            "bhn_tf needs the TensorFlow backend of Keras and found "
            f"{keras.backend.backend()!r}; start Python with: KERAS_BACKEND=tensorflow"
        )
    if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        raise ImportError(
            "bhn_tf needs Keras 3, and TF_USE_LEGACY_KERAS asks TensorFlow for "
            "Keras 2; start Python with: TF_USE_LEGACY_KERAS=0"
        )
    # With Keras 3, TensorFlow Probability needs Keras 2 under this name.
    require("tf_keras", "tf_keras")
    require("tensorflow_probability", "'tensorflow-probability[tf]'")
