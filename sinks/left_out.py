"""Keeps packages out of a process that would load them only because they are installed."""

import sys
from importlib.abc import MetaPathFinder
from typing import Final

#: Arrow loads both where it finds them, which takes 0.1 and 0.3 s of a core. Nothing here uses pandas, which comes with chDB;
#: answers are encoded and decoded without either.
PANDAS: Final = "pandas"
OF_ARROW: Final = (PANDAS, "numpy")


class _LeftOut(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(name=fullname)


def leave_out(*names: str) -> None:
    """Report from now on that these are not installed. For a process of one purpose alone: nothing takes it back."""
    sys.meta_path.insert(0, _LeftOut(frozenset(names)))
