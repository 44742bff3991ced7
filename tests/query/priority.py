"""Query processes of the tests keep their priority: beside other tests that fill every core, one that gives way never ends."""

from __future__ import annotations

from typing import Final

import pytest

from sinks.query import process

#: What starts a query process of the product.
LOWERED: Final = process._START
_KEPT: Final = LOWERED.replace(
    "from sinks.query.child",
    "from sinks.query import confine; confine.lower_priority = lambda nice: None; from sinks.query.child",
)


def command() -> None:
    """`trainfare`, in a process of its own, whose query processes keep their priority."""
    from streams.cli.main import main

    keep(pytest.MonkeyPatch())
    main()


def keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start those of this process without a word about priority."""
    assert _KEPT != LOWERED
    monkeypatch.setattr(process, "_START", _KEPT)
