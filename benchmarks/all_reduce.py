"""Bytes that an all-reduce moves in a training step, for each hypernet.

    python -m benchmarks.all_reduce                    # the perceptron of the README
    python -m benchmarks.all_reduce --event_sizes=1610,26560

Gradients are as many as the weights, with four bytes each, whatever the number of rows.
In a ring of W workers each sends and receives 2 (W - 1) / W times as much.
"""

import argparse
import math

from benchmarks import networks
from bhn_tf import hypernets
from bhn_tf.tables import text_table

_BYTES = 4
#: D of the perceptron with a scale for each unit.
EVENT_SIZE = 800 + 800 + 10


def families() -> dict[str, hypernets.Hypernet]:
    """The hypernets, by their names in the table."""
    return {
        "MeanField()": hypernets.MeanField(),
        "RealNVP(2)": hypernets.RealNVP(2),
        "RealNVP(8)": hypernets.RealNVP(8),
        "IAF(8)": hypernets.IAF(8),
        "Chunked()": hypernets.Chunked(),
    }


def bytes_of_hypernets(event_size: int) -> dict[str, int]:
    """Bytes of the gradients of each hypernet over D values."""
    return {name: _bytes_of(made, event_size) for name, made in families().items()}


def _bytes_of(hypernet, event_size: int) -> int:
    hypernet.build((None, event_size))
    return _BYTES * sum(math.prod(v.shape) for v in hypernet.trainable_variables)


def bytes_of_primary() -> int:
    """Bytes of the gradients of the plain perceptron."""
    network = networks.plain(networks.PERCEPTRON, jit_compile=False)
    return _BYTES * network.count_params()


def main(arguments=None) -> None:
    """Prints a table for every D."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--event_sizes", default=str(EVENT_SIZE), help="D, by commas")
    given = parser.parse_args(arguments)
    primary = bytes_of_primary()
    print(f"784-800-800-10, without hypernet: {primary / 1e6:.2f} MB\n")
    rows = [("D", "hypernet", "MB a step")]
    for event_size in map(int, given.event_sizes.split(",")):
        for name, size in bytes_of_hypernets(event_size).items():
            rows.append((f"{event_size:,}", name, f"{size / 1e6:.2f}"))
    print(text_table(rows, numbers=[0, 2]))


if __name__ == "__main__":
    main()
