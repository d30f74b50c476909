"""Python generators as data."""

import itertools

from bhn_tf.data_feeds.feed import HOW_TO_GIVE_N, NO_BATCH, Feed, unpacked
from bhn_tf.data_feeds.frames import batch_of_arrays


class GeneratorFeed(Feed):
    """A Python generator of batches, which can be read once.

    Args:
        x, y, sample_weight: As in `Feed`.
        first: The first batch, if it has been read already; `x` yields it again.
    """

    def __init__(self, x, y=None, sample_weight=None, first=None):
        if first is None:
            x = map(batch_of_arrays, x)
            first = next(x, None)
            if first is None:
                raise ValueError(NO_BATCH)
            x = _generator([first], x)
        super().__init__(x, y, sample_weight)
        self._first = first

    def first_batch(self):
        return unpacked(self._first)

    def count(self, validation_split=0.0):
        raise ValueError(
            f"A generator cannot be counted without using it up. {HOW_TO_GIVE_N} "
            "And make it anew: its first batch has been read."
        )

    def checked(self, checks):
        return GeneratorFeed(
            _checked_batches(self.x, checks), self.y, self.sample_weight, self._first
        )


def _generator(*parts):
    # Keras recognises generators by their type, which a chain lacks.
    yield from itertools.chain(*parts)


def _checked_batches(batches, checks):
    for batch in batches:
        checks.check(*unpacked(batch))
        yield batch
