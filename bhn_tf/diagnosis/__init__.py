"""Is this posterior any good? Numbers, findings and remedies.

`widths` and `layer_posteriors` look at q; `averaging`, `monte_carlo` and `reliability`
look at predictions.
"""

from bhn_tf.diagnosis.diagnose import diagnose
from bhn_tf.diagnosis.findings import Estimate, Finding
from bhn_tf.diagnosis.layer_posteriors import LayerPosterior
from bhn_tf.diagnosis.result import Diagnosis

__all__ = ["Diagnosis", "Estimate", "Finding", "LayerPosterior", "diagnose"]
