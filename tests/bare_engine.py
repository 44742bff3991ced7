"""The embedded engine without our store around it; some of its releases have types and some have none."""

from importlib import import_module
from typing import Any, Final

ENGINE: Final[Any] = import_module("chdb")
