"""Python generators as data."""

import itertools

from bhn_tf.data_feeds.feed import HOW_TO_GIVE_N, NO_BATCH, Feed, unpacked


class GeneratorFeed(Feed):
    """A Python generator of batches, which can be read once."""

    def __init__(self, x, y=None, sample_weight=None):
        first = next(x, None)
        if first is None:
            raise ValueError(NO_BATCH)
        self._first = first
        super().__init__(_generator([first], x), y, sample_weight)

    def first_batch(self):
        return unpacked(self._first)

    def count(self, validation_split=0.0):
        raise ValueError(
            "A generator cannot be counted without using it up. " + HOW_TO_GIVE_N
        )

    def checked(self, checks):
        return _AlreadyRead(
            _checked_batches(self.x, checks), self.y, self.sample_weight, self._first
        )


class _AlreadyRead(GeneratorFeed):
    """A generator of which the first batch is known."""

    def __init__(self, x, y, sample_weight, first):
        self._first = first
        Feed.__init__(self, x, y, sample_weight)


def _generator(*parts):
    # Keras knows generators by their type, which a chain has not; and it takes a list
    # as a batch of every other kind of data, but not of a generator.
    for batch in itertools.chain(*parts):
        yield tuple(batch) if isinstance(batch, list) else batch


def _checked_batches(batches, checks):
    for batch in batches:
        checks.check(*unpacked(batch))
        yield batch
