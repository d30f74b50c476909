"""What a layer is made of again: its arguments, and its parts in a file."""

import inspect

import keras

#: What configurations of Keras's own layers leave out, most of it before Keras 3.15.
_LEFT_OUT = ("data_format", "optional", "output_padding", "use_cudnn")


def unsaved_arguments_of(layer) -> dict:
    """Returns what `get_config` of one of Keras's own layers leaves out.

    A copy without these arguments would answer otherwise.
    """
    if _is_of_ones_own(layer) or not isinstance(layer, keras.layers.Layer):
        return {}
    lacking = inspect.signature(type(layer).__init__).parameters.keys()
    lacking -= layer.get_config().keys()
    return {name: getattr(layer, name) for name in _LEFT_OUT if name in lacking}


def functions_of(layer) -> dict:
    """Returns the functions that one of Keras's layers or operations was given.

    They are by argument; a configuration has only a function's name, or its code
    without the module around it. Layers of other classes have their own ways, and none
    here.
    """
    if _is_of_ones_own(layer):
        return {}
    found = {
        argument: value
        for argument in layer.get_config()
        for value in (getattr(layer, name, None) for name in (argument, f"_{argument}"))
        if inspect.isfunction(value)
    }
    if isinstance(layer, keras.layers.Lambda):
        # These may hold functions.
        found |= {"arguments": layer.arguments, "mask": layer.mask}
    return found


def _is_of_ones_own(layer) -> bool:
    return type(layer).__module__.split(".")[0] not in ("keras", "bhn_tf")


def with_objects(config: dict) -> dict:
    """Returns a configuration with the objects that Keras has made into dictionaries.

    Some are accepted by `from_config` alone, such as how a layer is quantised.
    """
    return {
        argument: keras.saving.deserialize_keras_object(value)
        if isinstance(value, dict) and "class_name" in value
        else value
        for argument, value in config.items()
    }


def arguments_left_out(layer, copied) -> list[str]:
    """Returns the arguments of a layer of a user's own class that its copy lacks.

    Its `get_config` leaves them out. Keras keeps the arguments of a constructor if all
    are numbers, strings and the like; else nothing is known.
    """
    given, again = (getattr(each, "_auto_config", None) for each in (layer, copied))
    if not _is_of_ones_own(layer) or given is None or again is None:
        return []
    parameters = inspect.signature(type(layer).__init__).parameters
    known = {"name", *layer.get_config()}
    return [
        name
        for name, value in given.config.items()
        if name in parameters
        and name not in known
        # Keras 3.11 keeps no defaults.
        and again.config.get(name, parameters[name].default) != value
    ]


def num_parts_in_file(store, place: str) -> int:
    """Returns how many layers in a list have weights in the file that is being read.

    Args:
        store: What Keras gives to a layer's `load_own_variables`. Of a file in several
            shards only the open one is counted, and of other formats nothing.
        place: Where the list is in the layer: attributes with slashes between them.
    """

    def is_array(name, item):
        return True if hasattr(item, "shape") else None

    file = getattr(store, "h5_file", None)
    around = getattr(store, "_h5_entry_path", None)
    parts = file.get(f"{around}/{place}", {}) if file else {}
    return sum(bool(part.visititems(is_array)) for part in parts.values())
