"""The order of the fields of an AWS flow log: the default one, or that which a header or the log's format names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: Version 2, which has no header in CloudWatch Logs.
DEFAULT: Final = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status"
_NAME: Final = re.compile(r"\$\{([a-z0-9-]+)\}\Z|([a-z0-9-]+)\Z")
_NEEDED: Final = ("bytes", "start", "end")


class Columns:
    """Field -> its place in a line; fields of later versions are passed over."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = len(names)
        self._at = {name: at for at, name in enumerate(names)}

    @classmethod
    def of(cls, text: str) -> Columns:
        """The columns that a header names, or a format such as `${version} ${srcaddr}`.

        Raises:
            ValueError: The text names no fields, or fields are missing that an amount of traffic needs.
        """
        found = [_NAME.match(word) for word in text.split()]
        names = [each[1] or each[2] for each in found if each is not None]
        if not names or len(names) != len(found) or len(set(names)) != len(names):
            raise ValueError("expected the names of fields, e.g. ${version} ${srcaddr} ${dstaddr} ${bytes}")
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            raise ValueError(f"the log has no {', '.join(missing)}; add it to the log's format")
        return cls(names)

    def cell(self, cells: Sequence[str], name: str) -> str:
        """A field of a line; empty where it has none, or `-`."""
        at = self._at.get(name)
        return "" if at is None or cells[at] == "-" else cells[at]
