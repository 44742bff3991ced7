"""The value of a record that stands for a whole batch which nobody could afford to read.

It must not hold what was not read.
"""

from __future__ import annotations


class Unread(bytes):
    """No bytes: `decode` refuses it as `unread_batch`, whatever topic it is of."""

    __slots__ = ()
