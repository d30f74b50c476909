"""What a conversion made random, what it did not, and why."""

import dataclasses
from typing import NamedTuple

import keras

from bhn_tf.tables import text_table


class ReportRow(NamedTuple):
    """What became of one layer.

    Attributes:
        path: Name of the layer, after the names of the models around it.
        layer: Its class in the original.
        generated: Names of the weights that the hypernet generates.
        num_random: Its share of D.
        reason: Why this is so; empty if it needs no explanation.
    """

    path: str
    layer: str
    generated: tuple[str, ...]
    num_random: int
    reason: str


@keras.saving.register_keras_serializable("bhn_tf")
@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """A row for every layer of a converted network; `print` shows a table.

    Attributes:
        rows: In the order of the layers.

    Example:
    ```python
    model = bhn_tf.from_keras(network)
    print(model.conversion_report)
    names = [row.path for row in model.conversion_report if row.num_random]
    ```
    """

    rows: tuple[ReportRow, ...]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, path: str) -> ReportRow:
        """The row of the layer with this path."""
        for row in self.rows:
            if row.path == path:
                return row
        raise KeyError(path)

    @property
    def num_random(self) -> int:
        """D, the number of generated values."""
        return sum(row.num_random for row in self.rows)

    def __str__(self):
        table = [("layer", "class", "generated", "D", "why")]
        for row in self.rows:
            generated = ", ".join(row.generated) or "-"
            table.append(
                (row.path, row.layer, generated, f"{row.num_random:,}", row.reason)
            )
        table.append(("", "", "", f"{self.num_random:,}", "in all"))
        return text_table(table, numbers=[3])

    def get_config(self):
        return {"rows": [list(row) for row in self.rows]}

    @classmethod
    def from_config(cls, config):
        return cls(
            tuple(
                ReportRow(path, layer, tuple(generated), num_random, reason)
                for path, layer, generated, num_random, reason in config["rows"]
            )
        )
