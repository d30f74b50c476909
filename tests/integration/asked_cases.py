"""What a fixture that all cases of a module share has to prepare."""

import pytest


def asked_cases(request: pytest.FixtureRequest, argument: str) -> list[str]:
    """The values of an argument that tests of the module were asked for, in order."""
    return list(
        dict.fromkeys(
            item.callspec.params[argument]
            for item in request.session.items
            if item.path == request.path
            and argument in getattr(getattr(item, "callspec", None), "params", {})
        )
    )
