"""Notes which generated values a network reads, and warns of those that it does not."""

from bhn_tf.user_warnings import warn_user


class ReadValues:
    """Watches whether training reads every value that a hypernet generates.

    A layer that reads its own variable in place of the generated value is not random,
    and only the prior would train what is generated for it.

    Args:
        layers: The layers with generated values.
    """

    def __init__(self, layers):
        self._layers = layers
        self._read: set[int] = set()
        self._has_warned = False

    def noted(self, values: dict) -> dict:
        """Returns generated values as a dictionary that notes which are read."""
        return _NotingReads(values, self._read)

    def warn(self) -> None:
        """Warns, once, of values that no call has read so far."""
        unread = [
            f"{layer.name}/{variable.name}"
            for layer in self._layers
            for variable in layer.generated_weights
            if id(variable) not in self._read
        ]
        if unread and not self._has_warned:
            self._has_warned = True
            warn_user(
                f"Training does not read the generated values of {unread}, so that "
                "only the prior trains them. If training uses the layer, its `call` "
                "has to read them by `current_value` or `over_axes` of "
                "`bhn_tf.layers.generated`, and not in a `tf.function` of its own, "
                "which keeps what it read first.",
            )


class _NotingReads(dict):
    def __init__(self, values, read: set[int]):
        super().__init__(values)
        self._read = read

    def __getitem__(self, key):
        self._read.add(key)
        return super().__getitem__(key)
