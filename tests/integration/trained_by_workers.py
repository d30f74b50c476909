"""A worker of a trainer's short run, which can be killed at a given epoch.

TF_CONFIG=... python tests/integration/trained_by_workers.py FOLDER [EPOCH]
"""

import os
import signal
import sys

from trainers import classification, training
from trainers.config import UsageProblem


def keep_every_epoch():
    training._SECONDS_BETWEEN_CHECKPOINTS = 0.0


def be_killed_at(last_epoch):
    on_epoch_begin = training._Progress.on_epoch_begin

    def killing(progress, epoch, logs=None):
        if epoch == last_epoch:
            os.kill(os.getpid(), signal.SIGKILL)
        on_epoch_begin(progress, epoch, logs)

    training._Progress.on_epoch_begin = killing


def main(folder, epoch=None):
    keep_every_epoch()
    if epoch is not None:
        be_killed_at(int(epoch))
    config = classification.Config(
        strategy="multi_worker",
        output_dir=folder,
        methods=("deterministic", "bhn"),
        units=(8,),
        num_flow_layers=1,
        flow_units=(8,),
        train_size=130,
        batch_size=50,
        epochs=4,
        num_samples=2,
        anomalies=("uniform",),
    )
    try:
        classification.run(config)
    except UsageProblem as problem:
        sys.exit(f"{problem}")


if __name__ == "__main__":
    main(*sys.argv[1:])
