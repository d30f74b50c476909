"""Files as strangers may send them: whole, or damaged in many ways."""

import hypothesis
from hypothesis import strategies

#: In the default run a few examples, the same ones always; `--hypothesis-profile=many`
#: looks for new ones.
hypothesis.settings.register_profile("many", max_examples=2_000, deadline=None)


def few(max_examples):
    """Settings of a test that runs with every change."""
    many = hypothesis.settings.get_current_profile_name() == "many"
    return hypothesis.settings(
        max_examples=2_000 if many else max_examples,
        deadline=None,
        derandomize=not many,
        database=None,
        # Fixtures are models and folders that no example changes.
        suppress_health_check=list(hypothesis.HealthCheck),
    )


@strategies.composite
def damaged(draw, contents):
    """Bytes of one of some files: cut, with bytes changed, put in or taken out."""
    found = bytearray(draw(strategies.sampled_from(contents)))
    for _ in range(draw(strategies.integers(0, 4))):
        at = draw(strategies.integers(0, max(len(found) - 1, 0)))
        # Headers determine the meaning of the rest.
        at = at % 64 if draw(strategies.booleans()) else at
        kind = draw(strategies.sampled_from(["change", "cut", "insert", "remove"]))
        if kind == "change" and found:
            found[at % len(found)] = draw(strategies.integers(0, 255))
        elif kind == "cut":
            del found[at:]
        elif kind == "insert":
            found[at:at] = draw(strategies.binary(min_size=1, max_size=9))
        else:
            del found[at : at + draw(strategies.integers(1, 9))]
    return bytes(found)


def any_bytes(*contents):
    """Damaged files, and now and then bytes that never were a file."""
    return strategies.one_of(damaged(contents), strategies.binary(max_size=64))


def outcome(call, *documented):
    """What a call returns, or the message of a documented error."""
    try:
        return call(), None
    except documented as error:
        return None, str(error)
