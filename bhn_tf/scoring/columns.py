"""Answers of a model as columns of a table."""

from collections.abc import Mapping

import numpy as np


def as_columns(answers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns one column a number: the mean first, then the scores by name.

    Args:
        answers: Arrays [rows, ...] by name of the output.

    Returns:
        Columns [rows]. What has more axes becomes one column each, by its index:
        `mean_0`, `mean_1`, ....

    Example:
        >>> list(as_columns({"entropy": np.zeros(2), "mean": np.zeros([2, 2])}))
        ['mean_0', 'mean_1', 'entropy']
    """
    columns = {}
    for name in sorted(answers, key=lambda name: (not name.endswith("mean"), name)):
        values = answers[name]
        for index in np.ndindex(values.shape[1:]):
            column = "_".join([name, *map(str, index)])
            columns[column] = values[(slice(None), *index)]
    return columns
