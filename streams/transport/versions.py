"""Refuses versions of Faust, mode and aiokafka other than those whose private parts this package uses.

Tests check whether the names still exist (tests/transport/pins.py).
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from streams.errors import TrainfareError

VERSIONS: Final = {"faust-streaming": "0.15.3", "mode-streaming": "0.7.1", "aiokafka": "0.14.0"}


def refuse_other_versions() -> None:
    """Check the installed versions before anything is read.

    Raises:
        TrainfareError: A version is not the pinned one.
    """
    faults = others()
    if faults:
        raise TrainfareError(
            "the installed Faust or aiokafka is not the one this version was built on: "
            + "; ".join(faults)
            + ". Install the pinned versions ("
            + ", ".join(f"{name}=={pinned}" for name, pinned in VERSIONS.items())
            + ")."
        )


def others() -> list[str]:
    """The packages that are not at the pinned version, described in words."""
    faults = []
    for name, pinned in VERSIONS.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "nothing"
        if found != pinned:
            faults.append(f"{name} is {found}, expected {pinned}")
    return faults
