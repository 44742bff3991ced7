"""Patterns of texts with `*` and `{job_id}`. A hostile text makes none of them slow: what is found is not sought again."""

from __future__ import annotations

import re
from typing import Final

_WILD_AT_MOST: Final = 8
_JOB_ID: Final = r"(?P<job_id>[^/\s\"]{1,200})"


def pattern_of(text: str) -> re.Pattern[str]:
    """An expression for whole texts; `{job_id}` is as long as it can be, without blanks, quotes and slashes.

    Raises:
        ValueError: The text has too many wildcards.
    """
    if text.count("{job_id}") > 1 or text.count("*") > _WILD_AT_MOST:
        raise ValueError(f"expected {{job_id}} once at most, and at most {_WILD_AT_MOST} of *")
    first, *others = (re.escape(part).replace(re.escape("{job_id}"), _JOB_ID) for part in text.split("*"))
    if not others:
        return re.compile(first)
    between = "".join(
        f"(?>.*?{part})" for part in others[:-1]
    )  # the first place will do, and is not given up
    return re.compile(f"{first}{between}.*?{others[-1]}", re.DOTALL)
