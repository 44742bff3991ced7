"""What a control's field is when it is invalid: the whole control then has no effect."""

from __future__ import annotations


class MalformedControlError(ValueError):
    """A field of a control is invalid; the message shows no value that may be an address."""
