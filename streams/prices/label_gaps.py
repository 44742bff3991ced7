"""Labels that have no price where others of the same key have one: another spelling, or a value that nobody priced.

Such a label costs nothing, as one of a key without prices does; but somebody meant it to cost something, or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from schemas.events import Component, PriceEvent
from schemas.reserved import USERS_JOBS

if TYPE_CHECKING:
    from sinks.answer import QueryResult

#: So many are said by name.
SAID_MAX: Final = 10
_VALUES_SAID: Final = 3
_OF_JOBS: Final = f"""SELECT concat(key, '=', value) AS label, count() AS jobs, argMax(job_id, (last_event, job_id)) AS job
FROM jobs FINAL ARRAY JOIN mapKeys(labels) AS key, mapValues(labels) AS value
WHERE {USERS_JOBS} AND lowerUTF8(key) IN {{keys:Array(String)}} AND concat(key, '=', value) NOT IN {{priced:Array(String)}}
GROUP BY label ORDER BY jobs DESC, label LIMIT {SAID_MAX + 1}"""

_PRICED: Final = f"""SELECT DISTINCT match['label'] AS label FROM prices FINAL
WHERE component = '{Component.compliance}' AND match['label'] != ''"""


def label_gaps(records: Callable[..., Sequence[Mapping[str, Any]]], book: Iterable[PriceEvent]) -> list[str]:
    """Sentences about labels of jobs in a store, the most frequent first, with what to do."""
    priced = _priced(book)
    sql, bound = _asked(priced)
    return _sentences(records(sql, **bound), priced) if priced else []


def label_gap_steps() -> Generator[tuple[str, dict[str, Any]], QueryResult, list[str]]:
    """Ask a store for the same, statement by statement."""
    priced = {str(row["label"]) for row in (yield _PRICED, {}).records()}
    return _sentences((yield _asked(priced)).records(), priced) if priced else []


def _asked(priced: set[str]) -> tuple[str, dict[str, Any]]:
    return _OF_JOBS, {"keys": sorted({_key(label) for label in priced}), "priced": sorted(priced)}


def _sentences(rows: Sequence[Mapping[str, Any]], priced: set[str]) -> list[str]:
    said = [
        f"label {row['label']} of {row['jobs']} {'job' if row['jobs'] == 1 else 'jobs'} ({row['job']}) {_remedy(row['label'], priced)}"
        for row in rows[:SAID_MAX]
    ]
    return [*said, "and further labels without a price"] if len(rows) > SAID_MAX else said


def gap_of(label: str, book: Iterable[PriceEvent]) -> str:
    """A sentence about one label; empty: it has a price, or no label of its key has one."""
    priced = _priced(book)
    is_gap = label not in priced and any(_key(each) == _key(label) for each in priced)
    return f"label {label} {_remedy(label, priced)}" if is_gap else ""


def _priced(book: Iterable[PriceEvent]) -> set[str]:
    return {
        event.match["label"]
        for event in book
        if event.component is Component.compliance and "label" in event.match
    }


def _key(label: str) -> str:
    return label.partition("=")[0].lower()


def _remedy(label: str, priced: set[str]) -> str:
    near = sorted(each for each in priced if each.lower() == label.lower())
    if near:
        return f"has no price, and {near[0]} has one: spell it so where the job is submitted, or load a price for it"
    others = sorted(each for each in priced if _key(each) == _key(label))
    more = ", ..." if len(others) > _VALUES_SAID else ""
    return (
        f"has no price, and {', '.join(others[:_VALUES_SAID])}{more} of the same key {'has' if len(others) == 1 else 'have'} one: "
        "load a price for it, of 0 if it costs nothing"
    )
