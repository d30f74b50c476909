"""Names that nothing else has."""

from collections.abc import Container


def unused_name(name: str, taken: Container[str]) -> str:
    """Returns the name, or the first of `name_1`, `name_2`, ... that is not taken.

    Example:
        >>> unused_name("loss", {"loss", "loss_1"})
        'loss_2'
    """
    unused, index = name, 0
    while unused in taken:
        index += 1
        unused = f"{name}_{index}"
    return unused
