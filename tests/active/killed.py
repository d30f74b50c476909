"""Learners that are killed, each in a process of its own: `killed.py DIRECTORY`.

The processes are forks of this one, which has imported all and done nothing yet.
"""

import os
import random
import signal
import sys
import time

import bhn_tf.active  # noqa: F401
from tests.active.learners import Labeller, learner

NUM_KILLS = 8


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def run(directory, asked):
    """Three rounds, with a line of `asked` for each answer that a person gave."""

    def label_fn(ids):
        time.sleep(0.01)
        with open(asked, "a") as file:
            file.write(" ".join(str(i) for i in ids) + "\n")
        return Labeller()(ids)

    learner(directory=directory, label_fn=label_fn).run(3)


def main(directory, asked):
    moments = random.Random(0)
    for _ in range(NUM_KILLS):
        process = os.fork()
        if not process:
            signal.signal(signal.SIGALRM, kill)
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(0.05, 0.35))
            run(directory, asked)
            kill()
        _, status = os.waitpid(process, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, status


if __name__ == "__main__":
    main(*sys.argv[1:])
