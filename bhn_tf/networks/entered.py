"""A layer of a user's own class, in which inner layers are replaced by others.

Only the class itself knows how such a layer calls the layers it holds, so it keeps its
`call`. The layers in its attributes, lists and dictionaries are replaced after it has
been built. It is saved as its own configuration, with the replacements and their paths.
"""

import functools
import itertools
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.networks.described_calls import (
    CannotBeEntered,
    build_by_call,
    call_as_described,
)


@keras.saving.register_keras_serializable("bhn_tf")
class EnteredLayer(keras.layers.Layer):
    """A layer in which some of the layers that it holds are replaced.

    Args:
        layer: An unbuilt layer of any class; it is built here.
        exchanged: Pairs of the paths to a layer inside, such as
            [["blocks", 0, "dense"]], and the configuration of its replacement.
        called: Arguments of its first call, from `arguments_of_calls`.
        is_checked: Whether it is known that replaced layers are no longer called.
        called_later: Arguments of other calls, which are checked as well.
        **kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        CannotBeEntered: If the layer still refers to a replaced layer in a way that
            Keras does not track, or reads weights of a replacement itself.

    Example:
    ```python
    from bhn_tf.networks.entered import EnteredLayer

    twin = bhn_tf.layers.WeightNormDense(3)
    twin.build((None, 4))
    entered = EnteredLayer(
        keras.layers.TimeDistributed(keras.layers.Dense(3)),
        [([["layer"]], keras.saving.serialize_keras_object(twin))],
        {"args": [{"shape": [None, 5, 4], "dtype": "float32"}], "kwargs": {}},
    )
    ```
    """

    def __init__(
        self, layer, exchanged, called, is_checked=False, called_later=(), **kwargs
    ):
        # Keras reads the supported arguments, masks and `training`, from `call`.
        @functools.wraps(layer.call)
        def call(*args, **kwargs):
            return layer(*args, **kwargs)

        self.call = call
        # The inner layer casts inputs itself, if it wants them cast.
        kwargs = {"name": layer.name, "dtype": layer.dtype_policy, **kwargs}
        super().__init__(autocast=False, **kwargs)
        self._config = {
            "layer": keras.saving.serialize_keras_object(layer),
            "exchanged": exchanged,
            "called": called,
        }
        self.layer = layer
        self.supports_masking = layer.supports_masking
        calls = [called, *called_later]
        for arguments in calls:
            build_by_call(layer, arguments)
        replaced, twins = [], []
        for paths, config in exchanged:
            twins.append(keras.saving.deserialize_keras_object(config))
            replaced += [_exchange(layer, path, twins[-1]) for path in paths]
        if not is_checked:
            _require_replaced(layer, replaced, twins, calls)
        self.built = True

    def compute_output_spec(self, *args, **kwargs):
        # Its class may know the shape, and not be able to run on symbolic tensors. The
        # call casts inputs as it always does.
        return self.layer(*args, **kwargs)

    def compute_mask(self, inputs, previous_mask):
        return self.layer.compute_mask(inputs, previous_mask)

    def get_config(self):
        base = super().get_config()
        kept = {name: base[name] for name in ("name", "trainable", "dtype")}
        return {**kept, **_copied(self._config)}

    @classmethod
    def from_config(cls, config):
        layer = keras.saving.deserialize_keras_object(config["layer"])
        kwargs = {
            **config,
            "layer": layer,
            "is_checked": True,
            "dtype": keras.dtype_policies.get(config["dtype"]),
        }
        return cls(**kwargs)


def _copied(config):
    """A configuration to give away: a `from_config` may take it apart."""
    if isinstance(config, dict):
        return {name: _copied(value) for name, value in config.items()}
    return [_copied(value) for value in config] if isinstance(config, list) else config


# -- places ---------------------------------------------------------------------------


def layers_by_path(layer) -> Iterator[tuple[list, keras.layers.Layer]]:
    """Yields the path of each layer that a layer holds directly, and the layer.

    Layers in tuples are left out, since tuples cannot be changed.
    """
    for name, value in keras_adapter.own_attributes(layer).items():
        yield from _in_container([name], value)


def _in_container(path, value):
    if isinstance(value, keras.layers.Layer):
        yield path, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            if isinstance(key, str | int):
                yield from _in_container([*path, key], each)


def _exchange(layer, path, twin):
    """Replaces the layer at a path, and returns the replaced one."""
    *holders, last = path
    owner, container = layer, None
    for key in holders:
        found = getattr(owner, key) if container is None else container[key]
        if isinstance(found, keras.layers.Layer):
            owner, container = found, None
        else:
            container = found
    old = getattr(owner, last) if container is None else container[last]
    keras_adapter.exchange_layer(owner, old, twin, container, last)
    return old


class _Reads(keras.StatelessScope):
    """Notes layers whose weights are read while they themselves are not called.

    A kernel that is read so would be the direction, without the scales of a draw; a
    bias that is not generated is what it was. Of models and wrappers, the layers
    inside may also be called one by one.
    """

    def __init__(self, layers):
        super().__init__(initialize_variables=False)
        layers = list(itertools.chain.from_iterable(map(_complete_alone, layers)))
        partial = {id(each) for layer in layers for each in _partial_weights(layer)}
        self._owners: dict[int, list[keras.layers.Layer]] = {}
        self._calls: dict[keras.layers.Layer, Callable | None] = {}
        for layer in layers:
            self._calls[layer] = vars(layer).get("call")
            for variable in layer.variables:
                if id(variable) in partial:
                    self._owners.setdefault(id(variable), []).append(layer)
        self._called: list[keras.layers.Layer] = []
        self.of_others: list[str] = []

    def __enter__(self):
        for layer in self._calls:
            layer.call = self._noted(layer)
        return super().__enter__()

    def __exit__(self, *args, **kwargs):
        super().__exit__(*args, **kwargs)
        for layer, own_call in self._calls.items():
            del layer.call
            if own_call is not None:
                layer.call = own_call

    def get_current_value(self, variable):
        owners = self._owners.get(id(variable))
        if owners and not any(owner in self._called for owner in owners):
            self.of_others.append(owners[-1].name)
        return super().get_current_value(variable)

    def _noted(self, layer) -> Callable:
        """The `call` of a layer, during which its weights are its own to read."""
        own_call = layer.call

        @functools.wraps(own_call)
        def call(*args, **kwargs):
            self._called.append(layer)
            try:
                return own_call(*args, **kwargs)
            finally:
                self._called.pop()

        return call


def _complete_alone(layer) -> Iterator[keras.layers.Layer]:
    """A layer and those inside that draw without it, so not the cells of an RNN."""
    yield layer
    if not isinstance(layer, RandomLayer):
        for inner in keras_adapter.layers_inside(layer):
            yield from _complete_alone(inner)


def _partial_weights(layer) -> list:
    """Weights that are not what they are in Keras: generated ones, and directions."""
    if not isinstance(layer, RandomLayer):
        return []
    names = ("direction", "recurrent_direction")
    directions = [getattr(layer, name, None) for name in names]
    return [*layer.generated_weights, *(v for v in directions if v is not None)]


def _require_replaced(layer, replaced, twins, calls) -> None:
    """Traces calls of the layer, in which replaced layers refuse to be called."""
    inside = {id(inner) for inner in keras_adapter.layers_of(layer)}
    called_still = []

    def refuse(old):
        def call(*args, **kwargs):
            called_still.append(old.name)
            raise CannotBeEntered(f"{old.name!r} was exchanged")

        return call

    for old in replaced:
        if id(old) in inside:
            raise CannotBeEntered(f"it holds {old.name!r} in a second place")
        old.call = refuse(old)
    reads = _Reads(twins)
    unbuilt = [inner for inner in keras_adapter.layers_of(layer) if not inner.built]
    try:
        for called in calls:
            _trace(layer, called, reads)
    except Exception as error:
        if called_still:
            raise CannotBeEntered(
                f"it calls {called_still[0]!r} by another way than an attribute, a "
                "list or a dictionary"
            ) from error
        raise
    late = [inner.name for inner in unbuilt if inner.built and inner.variables]
    if late:
        raise CannotBeEntered(f"it calls {late[0]!r} in training alone")
    if reads.of_others:
        raise CannotBeEntered(
            f"it reads weights of {reads.of_others[0]!r} itself, beside calling it"
        )


def _trace(layer, called, reads) -> None:
    """Traces a call of the layer, also in training, and notes what it reads."""
    specs: list[tf.TensorSpec] = []
    call_as_described(
        lambda *args, **kwargs: None,
        called,
        lambda shape, dtype: specs.append(tf.TensorSpec(shape, dtype)),
    )
    modes: list[dict] = [{}]
    if keras_adapter.takes_training(layer) and "training" not in called["kwargs"]:
        modes.append({"training": True})
    for mode in modes:

        @tf.function
        def trace(*tensors, mode=mode):
            given = iter(tensors)
            with reads:
                call_as_described(layer, called, lambda *_: next(given), **mode)

        trace.get_concrete_function(*specs)
