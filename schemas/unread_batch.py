"""The value of a placeholder for a whole batch that was too large to read."""

from __future__ import annotations


class Unread(bytes):
    """Empty bytes that `decode` refuses as `unread_batch`, in any topic."""

    __slots__ = ()
