"""What rules are called, for commands that load the engine only if they show an alert."""

from __future__ import annotations

from schemas.escaping import visible


def title_of(rule: object) -> str:
    """The title of a rule by its name; what is no rule of ours is made visible."""
    from streams.engine.alerts import titles  # loads the kernels

    return visible(titles.title_of(str(rule)))


def title_column(rule: object) -> str:
    """The title, filled up to the longest of all, for lines that come one by one and are to stand in columns."""
    from streams.engine.alerts import titles

    return title_of(rule).ljust(max(map(len, titles.TITLES.values())))
