"""Who runs a command."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """The name of the user; its number where the machine has no name for it, as in many containers."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
