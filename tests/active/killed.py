"""Learners, each killed in a process of its own: `killed.py DIRECTORY [NUM_KILLS]`.

The processes are forks of this one, which has only imported the modules.
"""

import os
import pathlib
import random
import signal
import sys

from bhn_tf.active.labels import read_labels
from tests.active.learners import Labeller, learner


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def run(directory):
    """Three rounds; fails if anybody is asked for labels that are on disk."""
    path = pathlib.Path(directory, "labels.npy")
    recorded = set(read_labels(path).ids) if path.exists() else set()

    def label_fn(ids):
        assert not recorded & set(ids), "asked twice"
        return Labeller()(ids)

    learner(directory=directory, label_fn=label_fn).run(3)


def main(directory, num_kills="5"):
    moments = random.Random(0)
    for _ in range(int(num_kills)):
        process = os.fork()
        if not process:
            signal.signal(signal.SIGALRM, kill)
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(0.05, 0.35))
            run(directory)
            kill()
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), status


if __name__ == "__main__":
    main(*sys.argv[1:])
