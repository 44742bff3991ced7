"""A number of things in words: "1 line", "2,000 lines"."""


def how_many(number: int, one: str, many: str = "") -> str:
    """The number with its noun; `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
