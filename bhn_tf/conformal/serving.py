"""SavedModels that answer with guarantees."""

import keras
import tensorflow as tf

from bhn_tf.conformal import groups, ranks
from bhn_tf.conformal.output_to_calibrate import for_each_output
from bhn_tf.serving.export import check_destination, write_version
from bhn_tf.serving.names import SEPARATOR, input_specs
from bhn_tf.serving.signatures import SIGNATURES, Signatures, check_signatures


def export_calibrated(
    calibrated, directory, signatures, metrics, class_names=None
) -> str:
    """Writes the next version; see `Calibrated.export`.

    Args:
        calibrated: A `Calibrated`.
        directory, signatures, metrics, class_names: As `Calibrated.export`.

    Returns:
        The path of the new version.

    Raises:
        ValueError: If a signature is unknown, an input is named `level` or `by`, there
            is not one name of its own for each class, one is empty or contains `|`, or
            there are no classes.
        OSError: If it cannot be written; no part of it is then left.
    """
    check_destination(directory, metrics)
    kinds = {
        "predict_interval": calibrated.makes_intervals,
        "predict_set": calibrated.makes_sets,
    }
    guarantees = [name for name, is_made in kinds.items() if is_made]
    asked = check_signatures(signatures, (*SIGNATURES, *guarantees))
    frozen = (calibrated.draws, calibrated.posterior.draw(0, None).values)
    specs, structure = input_specs(*calibrated.model.served_inputs)
    maker = _Signatures(calibrated, specs, structure, len(frozen[0]), frozen)
    named = maker.named_classes(class_names)
    made = maker.make(asked)
    facts = {
        "num_samples": calibrated.posterior.num_draws(len(frozen[0])),
        "ensemble": True,
        "metrics": metrics,
        "input_names": specs.originals,
        "calibration": maker.described(),
        "class_names": named,
    }
    return write_version(calibrated.model, directory, made, frozen, facts)


class _Signatures(Signatures):
    """The functions of a served model and of its guarantee."""

    def __init__(self, calibrated, specs, structure, num_samples, frozen):
        super().__init__(calibrated, specs, structure, num_samples, frozen)
        self._calibrated, self._taken = calibrated, set(specs)

    def described(self) -> dict:
        """What the model card says about calibration, by name for several outputs."""
        described = [each.described() for each in self._calibrated.calibrations]
        if not self._output_names:
            return described[0]
        return dict(zip(self._output_names, described, strict=True))

    def named_classes(self, given):
        """The names of the classes for the model card; `None` if there are none."""
        if given is None:
            return None
        names = self._output_names or ("",)
        sizes = dict(zip(names, self._num_classes(), strict=True))
        if not any(sizes.values()):
            raise ValueError(
                "`class_names` was given, and the model predicts numbers: leave it out."
            )
        called = for_each_output(given, "class_names", self._output_names)
        if not isinstance(given, dict):
            # What is given for all outputs is meant for those of classes.
            called = {name: each for name, each in called.items() if sizes[name]}
        found = {
            name: _names_of_classes(each, sizes[name], name)
            for name, each in called.items()
            if each is not None
        }
        return found if self._output_names else found[""]

    def _num_classes(self):
        """C of each output; 0 for outputs of numbers."""
        raws = keras.tree.flatten(self._calibrated.model.raw_outputs.zeros_for(1))
        return [
            0 if each.makes_intervals else max(part.mean(raw).shape[-1], 2)
            for each, part, raw in zip(
                self._calibrated.calibrations,
                self._calibrated.likelihood.parts_of_outputs(),
                raws,
                strict=True,
            )
        ]

    def _predict_interval(self):
        def predict_interval(inputs, limits):
            bounds = self._calibrated.answers.interval(
                self._pack(inputs), self._draws(None), *limits
            )
            return [{"lower": lower, "upper": upper} for lower, upper in bounds]

        return self._with_level(predict_interval, makes_intervals=True)

    def _predict_set(self):
        def predict_set(inputs, limits):
            answers = self._calibrated.answers
            sets = answers.set(self._pack(inputs), self._draws(None), *limits)
            return [{"set": each} for each in sets]

        return self._with_level(predict_set, makes_intervals=False)

    def _with_level(self, function, makes_intervals):
        names = self._output_names or ("",)
        outputs = {
            f"{name}_" if name else "": each
            for name, each in zip(names, self._calibrated.calibrations, strict=True)
            if each.makes_intervals == makes_intervals
        }
        scores = {prefix: each.calibration_scores for prefix, each in outputs.items()}
        # The groups by argument, and the argument of each output.
        groups_of, argument_of = _groups(outputs, self._calibrated.shared_groups)
        more = {"level": tf.TensorSpec([], tf.float32, name="level")}
        for name, values in groups_of.items():
            is_text = isinstance(values[0], str)
            dtype = tf.string if is_text else tf.int64
            more[name] = tf.TensorSpec([None], dtype, name=name)
        if self._taken & set(more):
            raise ValueError(
                f"The network has inputs named {sorted(self._taken & set(more))}, "
                f"which `{function.__name__}` takes itself: rename them."
            )

        def of_request(**inputs):
            level = inputs.pop("level")
            given = {name: inputs.pop(name) for name in groups_of}
            limits = [
                _limits(each, scores[prefix], level, given.get(argument_of.get(prefix)))
                for prefix, each in outputs.items()
            ]
            return {
                prefix + name: value
                for prefix, answer in zip(
                    outputs, function(inputs, limits), strict=True
                )
                for name, value in answer.items()
            }

        return self._function(of_request, function.__name__, **more)


def _names_of_classes(given, num_classes: int, output: str) -> list[str]:
    """The names of one output's classes as texts, which tell the classes apart."""
    if isinstance(given, str):
        raise ValueError(
            f"`class_names` has the text {given!r}, which would name each class by a "
            "letter: give a list of names."
        )
    if len(given) != num_classes:
        raise ValueError(
            f"Got {len(given)} `class_names`, and the output"
            f"{f' {output!r}' * bool(output)} has {num_classes} classes: give one for "
            "each."
        )
    names = list(map(str, given))
    if len(set(names)) < len(names):
        raise ValueError(
            f"`class_names` has {names}, where classes share a name, and a set would "
            "not tell which: give each its own."
        )
    for name in names:
        if not name or SEPARATOR in name:
            raise ValueError(
                f"`class_names` has {name!r}, but files of scores write a set as names "
                f"separated by {SEPARATOR!r}: give names that are not empty and do not "
                "contain it."
            )
    return names


def _groups(outputs, are_shared: bool | None) -> tuple[dict, dict]:
    """The possible groups of each argument, and the argument of each output."""
    grouped = {prefix: each.by for prefix, each in outputs.items() if each.is_grouped}
    if are_shared is None:
        # An earlier version did not say: equal names and sizes are taken for the same.
        kinds = {(*by, *outputs[prefix].counts) for prefix, by in grouped.items()}
        are_shared = len(kinds) <= 1
    are_shared = are_shared or len(grouped) == 1
    argument_of = {prefix: "by" if are_shared else f"{prefix}by" for prefix in grouped}
    return {argument_of[prefix]: by for prefix, by in grouped.items()}, argument_of


def _limits(calibration, scores, level, by):
    """`OutputCalibration.limits` for the level and groups of a request."""
    limits = ranks.thresholds_in_graph(tf.constant(scores), calibration.counts, level)
    if calibration.is_grouped:
        return tf.gather(limits, groups.index_in_graph(by, calibration.by))
    return tf.transpose(limits) if calibration.by == "class" else limits
