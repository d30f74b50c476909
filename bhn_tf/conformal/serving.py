"""SavedModels that answer with guarantees."""

import tensorflow as tf

from bhn_tf.conformal import groups, ranks
from bhn_tf.serving.export import write_version
from bhn_tf.serving.names import input_specs
from bhn_tf.serving.signatures import SIGNATURES, Signatures, check_signatures


def export_calibrated(calibrated, directory, signatures, metrics) -> str:
    """Writes the next version; `Calibrated.export` tells the rest."""
    guarantee = "predict_interval" if calibrated.makes_intervals else "predict_set"
    asked = check_signatures(signatures, (*SIGNATURES, guarantee))
    frozen = (calibrated.draws, calibrated.posterior.draw(0, None).values)
    specs, structure = input_specs(*calibrated.model.served_inputs)
    maker = _Signatures(calibrated, specs, structure, len(frozen[0]), frozen)
    made = maker.make(asked)
    facts = {
        "num_samples": len(frozen[0]),
        "ensemble": True,
        "metrics": metrics,
        "input_names": specs.originals,
        "calibration": _described(calibrated),
    }
    # A request of zeros asks for the level 0, which is refused.
    return write_version(
        calibrated.model, directory, made, frozen, facts, cold=[guarantee]
    )


def _described(calibrated) -> dict:
    return {
        "num_rows": calibrated.num_rows,
        "score": type(calibrated.score).__name__,
        "score_config": calibrated.score.get_config(),
        "by": calibrated.by,
        "rows_of_groups": calibrated.counts,
        "highest_level": calibrated.highest_level,
        "temperature": calibrated.temperature if calibrated.recalibrates else None,
        "ece_before": calibrated.ece_before,
        "ece_after": calibrated.ece_after,
    }


class _Signatures(Signatures):
    """The functions of a served model, and those of its guarantee."""

    def __init__(self, calibrated, specs, structure, num_samples, frozen):
        super().__init__(calibrated, specs, structure, num_samples, frozen)
        self._calibrated, self._taken = calibrated, set(specs)

    def _predict_interval(self):
        def predict_interval(inputs, limits):
            lower, upper = self._calibrated.answers.interval(
                self._pack(inputs), self._draws(None), limits
            )
            return {"lower": lower, "upper": upper}

        return self._with_level(predict_interval)

    def _predict_set(self):
        def predict_set(inputs, limits):
            answers = self._calibrated.answers
            return {"set": answers.set(self._pack(inputs), self._draws(None), limits)}

        return self._with_level(predict_set)

    def _with_level(self, function):
        calibrated = self._calibrated
        scores = tf.constant(calibrated.calibration_scores)
        more = {"level": tf.TensorSpec([], tf.float32, name="level")}
        is_grouped = calibrated.by not in (None, "class")
        if is_grouped:
            dtype = tf.constant(calibrated.by[0]).dtype
            dtype = tf.string if dtype == tf.string else tf.int64
            more["by"] = tf.TensorSpec([None], dtype, name="by")
        if self._taken & set(more):
            raise ValueError(
                f"The network has inputs named {sorted(self._taken & set(more))}, "
                f"which `{function.__name__}` takes itself: rename them."
            )

        def of_request(**inputs):
            level, by = inputs.pop("level"), inputs.pop("by", None)
            limits = ranks.thresholds_in_graph(scores, calibrated.counts, level)
            if is_grouped:
                limits = tf.gather(limits, groups.index_in_graph(by, calibrated.by))
            elif calibrated.by == "class":
                limits = tf.transpose(limits)
            return function(inputs, limits)

        return self._function(of_request, function.__name__, **more)
