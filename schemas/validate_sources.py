"""Checks the controls of kind `source`: what a collector or a reader of prices says of all that it has read."""

import re
from collections.abc import Mapping
from typing import Final

from schemas.events import ControlEvent
from schemas.reasons import Reason
from schemas.refusal import refuse, refuse_missing, refuse_unknown

SOURCE: Final = "source"
KEY_PREFIX: Final = b"source/"
#: Begins the names of lists of prices, which are read now and then and not followed.
PRICES_PREFIX: Final = "prices/"
#: Begin the names of collectors that run on each node and end with it, as autoscalers end nodes; then comes the host.
NODE_PREFIXES: Final = ("nvidia-smi@",)
#: Of one record, in each of its objects.
MAX_REASONS: Final = 64
MAX_COUNT: Final = 2**53
METERED: Final = "metered"
NOT_UNDERSTOOD: Final = "not_understood"

_CLASS_AND_REASON: Final = re.compile(rf"{METERED}|(?:free|{NOT_UNDERSTOOD})/[a-z][a-z0-9_]{{0,59}}")
_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")
_COUNTS: Final = f"numbers from 0 to {MAX_COUNT}, by `metered`, `free/RULE` and `not_understood/REASON`"
_FIELDS: Final = frozenset({"polls", "entries", "examples", "standing", "by", "comment"})


def is_source(key: bytes, event: ControlEvent | None) -> bool:
    """Whether a record of `controls` is what a source says, or forgets one: nothing that people set."""
    return key.startswith(KEY_PREFIX) and (event is None or event.kind == SOURCE)


def check_source(value: Mapping[str, object]) -> None:
    """Check the fields of a record.

    Raises:
        RefusedError: One is missing or invalid.
    """
    refuse_unknown(value, _FIELDS)
    if not _is_count(value.get("polls"), 1):
        refuse(Reason.out_of_range, "polls", value.get("polls"), f"a number of polls from 1 to {MAX_COUNT}")
    entries, examples, standing = value.get("entries"), value.get("examples", {}), value.get("standing", [])
    if entries is None:
        refuse_missing("entries", _COUNTS)
    if not isinstance(entries, Mapping) or len(entries) > MAX_REASONS:
        refuse(Reason.wrong_type, "entries", entries, _COUNTS)
    for name, count in entries.items():
        if not (_CLASS_AND_REASON.fullmatch(name) and _is_count(count, 0)):
            refuse(Reason.out_of_range, "entries", {name: count}, _COUNTS)
    if not isinstance(examples, Mapping) or not all(
        _REASON.fullmatch(name) and isinstance(said, str) for name, said in examples.items()
    ):
        refuse(Reason.wrong_type, "examples", examples, "a text by reason")
    if (
        not isinstance(standing, list)
        or len(standing) > MAX_REASONS
        or not all(isinstance(each, str) and _REASON.fullmatch(each) for each in standing)
    ):
        refuse(Reason.wrong_type, "standing", standing, f"at most {MAX_REASONS} reasons")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_COUNT
