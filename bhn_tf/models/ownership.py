"""Parts that a model trains are its own: two models would train the same weights."""

import gc
import weakref

#: The owner of each part; weak, so neither is kept alive.
_OWNERS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def refuse_part_of_another(part, owner, kind: str, changed: str) -> None:
    """Raises `ValueError` if a part belongs to another living model.

    Args:
        part: A layer.
        owner: The model, or the object of the model, that would have the part.
        kind: What the part is, for the error.
        changed: What the training of another model would change.
    """
    if _has_other_owner(part, owner):
        # A deleted owner may still be alive in a reference cycle.
        gc.collect()
    if _has_other_owner(part, owner):
        raise ValueError(
            f"The given {kind} {part.name!r} belongs to another model, whose training "
            f"would change this one's {changed}, and this one's the other's. Give a "
            "new instance to each model."
        )


def claim(part, owner) -> None:
    """Makes a part the owner's, so that no other model can take it."""
    _OWNERS[part] = weakref.ref(owner)


def _has_other_owner(part, owner) -> bool:
    return _OWNERS.get(part, lambda: None)() not in (owner, None)
