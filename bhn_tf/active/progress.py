"""The progress of a learner: its rounds, and the labels given."""

import dataclasses
import zlib

import numpy as np


@dataclasses.dataclass
class Progress:
    """The rounds of a learner.

    Attributes:
        configuration: That of the learner, as JSON values. `seed` is `None` until it is
            known.
        rounds: A dictionary per round, as `ActiveLearner.run` returns them; `metrics`
            is `None` until the model is trained on the round.
        labels: All labels [n, ...], in the order of `ids`; `None` before the first.
        models: Models on disk: the number of labels each is trained on, and the
            checksum of its file, `None` if it was not recorded.
        trained_labels: Checksums of the labels that the rounds were trained on, like
            `checksums_of_labels`, if the state has them.
    """

    configuration: dict
    rounds: list[dict] = dataclasses.field(default_factory=list)
    labels: np.ndarray | None = None
    models: dict[int, str | None] = dataclasses.field(default_factory=dict)
    trained_labels: list[int] = dataclasses.field(default_factory=list)

    @property
    def ids(self) -> np.ndarray:
        """Rows of the pool in the order in which they were asked for, [n]."""
        ids = [i for entry in self.rounds for i in entry["ids"]]
        return np.array(ids, dtype=np.int64)

    @property
    def round_sizes(self) -> list[int]:
        """Labels of each round."""
        return [len(entry["ids"]) for entry in self.rounds]

    @property
    def num_trained(self) -> int:
        """Number of labels up to the last round without a gap that has metrics."""
        number = 0
        for entry in self.rounds:
            if entry["metrics"] is None:
                break
            number = entry["num_labelled"]
        return number

    def checksums_of_labels(self) -> list[int]:
        """For each round a checksum of all labels so far, whatever their dtype."""
        found, checksum, start = [], 0, 0
        for entry in self.rounds:
            # Every round brings labels.
            assert self.labels is not None
            # Integer labels may be followed by a round of decimals.
            rows = np.asarray(self.labels[start : entry["num_labelled"]], np.float64)
            checksum = zlib.crc32(f"{rows.shape}".encode() + rows.tobytes(), checksum)
            found.append(checksum)
            start = entry["num_labelled"]
        return found

    def forget_labels_that_were_corrected(self, checksums: list[int]) -> None:
        """Drops models and metrics from the first round with corrected labels on.

        Args:
            checksums: Those of the labels that the rounds were trained on; fewer, or
                none, if they are not known.
        """
        pairs = zip(self.checksums_of_labels(), checksums, strict=False)
        corrected = [number for number, (now, then) in enumerate(pairs) if now != then]
        if not corrected:
            return
        entries = self.rounds[corrected[0] :]
        for entry in entries:
            entry["metrics"] = None
        first = entries[0]["num_labelled"]
        self.models = {n: text for n, text in self.models.items() if n < first}

    def add(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """Adds a round that is labelled but not yet trained on."""
        self.labels = (
            # A copy, since the caller may reuse the array.
            labels.copy()
            if self.labels is None
            else np.concatenate([self.labels, labels])
        )
        self.rounds.append(entry_of(len(self.rounds), ids, len(self.labels)))

    def takes_over(self, other: "Progress") -> bool:
        """Whether this begins with all rows and labels of `other`."""
        count = len(other.ids)
        return not count or (
            self.labels is not None
            and other.labels is not None
            and np.array_equal(self.ids[:count], other.ids)
            and np.array_equal(self.labels[:count], other.labels)
        )

    def with_metrics_of(self, other: "Progress") -> "Progress":
        """A copy with metrics of `other` where they are missing here."""
        rounds = [dict(entry) for entry in self.rounds]
        for entry, known in zip(rounds, other.rounds, strict=False):
            if entry["metrics"] is None:
                entry["metrics"] = known["metrics"]
        return dataclasses.replace(self, rounds=rounds)


def entry_of(number: int, ids, num_labelled: int) -> dict:
    """The entry of a round that is labelled but not yet trained on."""
    ids = [int(i) for i in ids]
    return {"round": number, "ids": ids, "num_labelled": num_labelled, "metrics": None}
