"""What steps measure: the terms of the loss, and the metrics of `compile`."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.data_feeds import unpacked
from bhn_tf.models.compiled_metrics import update_metrics
from bhn_tf.models.logs import results_by_name
from bhn_tf.models.metric_labels import MetricLabels
from bhn_tf.models.trackers import Trackers


class Measures:
    """Means over the examples of an epoch, from the steps to the logs.

    Training and evaluation have trackers of their own, since validation runs within
    training.
    """

    def __init__(self):
        self._training: Trackers | None = None
        self._evaluation: Trackers | None = None
        self._labels = MetricLabels()

    def make_trackers(self, objective, output_names) -> None:
        """Makes the trackers of the objective's terms, unless there are some."""
        if self._training is None:
            self._training = objective.trackers(output_names)
            self._evaluation = objective.trackers(output_names)

    def trackers(self, is_evaluation: bool):
        """Returns the trackers of evaluation or training; `None` before any."""
        return self._evaluation if is_evaluation else self._training

    def forget_coding(self) -> None:
        """Lets metrics that are new decide the coding of their labels."""
        self._labels.forget()

    # -- from the steps -------------------------------------------------------------

    def update(self, model, compiled, batch, scores, terms, is_evaluation) -> None:
        """Takes in a batch.

        Args:
            model: The model, for its likelihood and its raw outputs.
            compiled: Keras's object that holds all metrics of `compile`, or `None`.
            batch: The `Batch`.
            scores: Its `BatchScores`.
            terms: The `Terms` of its loss.
            is_evaluation: Whether evaluation or training has scored it.
        """
        trackers = self.trackers(is_evaluation)
        trackers.has_regularization = model.raw_outputs.has_losses
        trackers.update(terms, batch.num_rows)
        y_pred = scores.mean()
        if compiled is not None:
            update_metrics(
                compiled,
                model.likelihood,
                model.raw_outputs.shapes,
                self._labels.of(model.likelihood, batch.y, y_pred),
                y_pred,
                batch.sample_weight,
            )

    def build_compiled(self, model, compiled, data) -> None:
        """Builds the metrics of `compile`, ahead of all steps, for data like a batch.

        Args:
            model, compiled: As in `update`.
            data: A batch as Keras passes it to a step.
        """
        _, y, _ = unpacked(data)
        y_pred = model.likelihood.mean(
            model.raw_outputs.zeros_for(keras.tree.flatten(y)[0].shape[0])
        )
        compiled.build(self._labels.of(model.likelihood, y, y_pred), y_pred)

    # -- to the logs ----------------------------------------------------------------

    def metrics(self, own, networks, is_evaluation: bool) -> list:
        """Returns all metrics in the order of the logs.

        Args:
            own: Those that Keras finds in the model.
            networks: The model's networks, whose layers may have further ones.
            is_evaluation: Whether the logs are those of an evaluation.
        """
        others = [*own]
        for network in networks:
            held = keras_adapter.metrics_inside(network)
            others += [m for m in held if not any(m is other for other in others)]
        trackers = self.trackers(is_evaluation)
        if trackers is None:
            return others
        return [trackers.loss, *others, *trackers.shown(is_evaluation)]

    def results(self, metrics, compiled, is_evaluation: bool) -> dict:
        """Returns the results of `metrics` by their names in the logs.

        Raises:
            ValueError: If a compiled metric has the name of a term.
        """
        trackers = self.trackers(is_evaluation)
        terms = () if trackers is None else (trackers.loss, *trackers.shown(True))
        return results_by_name(metrics, terms, compiled)
