"""The result of a diagnosis: numbers, findings, a text and a picture."""

import dataclasses
import math
import textwrap
from typing import TYPE_CHECKING

import keras

from bhn_tf import plots
from bhn_tf.diagnosis.findings import Estimate, Finding
from bhn_tf.diagnosis.layer_posteriors import LayerPosterior
from bhn_tf.tables import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The result of `bhn_tf.diagnose`; `print` shows a table.

    Attributes:
        model: Class of the model.
        num_rows: Number of rows measured.
        num_samples: S.
        layers: A `LayerPosterior` for each layer with generated values.
        measurements: Numbers and `Estimate`s by name, without those that do not apply.
        findings: What is not as it should be, warnings first; empty if nothing was
            found.
    """

    model: str
    num_rows: int
    num_samples: int
    layers: tuple[LayerPosterior, ...]
    measurements: dict[str, float | Estimate]
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict:
        """Returns everything in a form that JSON can hold.

        Infinite ends of intervals and other numbers that JSON does not have are `None`.

        Example:
        ```python
        import json
        import pathlib

        diagnosis = bhn_tf.diagnose(model, x, y)
        pathlib.Path("diagnosis.json").write_text(json.dumps(diagnosis.to_dict()))
        ```
        """
        measurements = {
            name: value._asdict() if isinstance(value, Estimate) else value
            for name, value in self.measurements.items()
        }
        layers = [
            {**dataclasses.asdict(layer), "width": layer.width._asdict()}
            for layer in self.layers
        ]
        findings = [dataclasses.asdict(finding) for finding in self.findings]
        everything = {
            **dataclasses.asdict(self),
            "layers": layers,
            "measurements": measurements,
            "findings": findings,
        }
        return keras.tree.map_structure(_number_of_json, everything)

    def plot(self) -> "Figure":
        """Returns the picture of `bhn_tf.plots.diagnosis`."""
        return plots.diagnosis(self)

    def __str__(self):
        blocks = [
            f"{self.model}, {self.num_rows:,} rows, S = {self.num_samples}",
            _table_of_layers(self.layers),
            _table_of_measurements(self.measurements),
            *map(_paragraph, self.findings),
        ]
        if not self.findings:
            blocks.append("No findings.")
        return "\n\n".join(block for block in blocks if block)


def _number_of_json(value):
    is_beyond = isinstance(value, float) and not math.isfinite(value)
    return None if is_beyond else value


def _table_of_layers(layers) -> str:
    if not layers:
        return ""
    head = ("layer", "values", "std", "prior std", "KL a value", "width")
    rows = [
        (
            layer.name,
            f"{layer.num_values:,}",
            f"{layer.stddev:.3g}",
            f"{layer.prior_stddev:.3g}",
            f"{layer.kl_per_value:.3g}",
            f"{layer.width.value:.2g}",
        )
        for layer in layers
    ]
    return text_table([head, *rows], numbers=range(1, len(head)))


def _table_of_measurements(measurements) -> str:
    rows = [("", "value", "interval")]
    for name, value in measurements.items():
        interval = ""
        if isinstance(value, Estimate):
            interval = f"{value.low:.3g} to {value.high:.3g}"
            value = value.value
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        rows.append((name.replace("_", " "), text, interval))
    return text_table(rows, numbers=[1])


def _paragraph(finding: Finding) -> str:
    where = "" if finding.layer is None else f" in {finding.layer}"
    head = f"{finding.severity}: {finding.name}{where}"
    lines = textwrap.wrap(finding.message, 84) + textwrap.wrap(
        f"Mend: {finding.mend}", 84
    )
    return "\n  ".join([head, *lines])
