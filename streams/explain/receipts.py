"""Statements about the receipts and digests that were stored, and what became of their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streams.engine.rules.formatting import instant
from streams.explain.why.sql import NEWEST_TICK

#: Joined to rows of `receipts AS r`: the last outcome at each receiver.
SENT: Final = """
LEFT ANY JOIN
(
    SELECT alert_id, arrayStringConcat(arraySort(groupUniqArray(outcome)), ', ') AS outcomes
    FROM (SELECT alert_id, receiver, argMax(outcome, (time, attempt)) AS outcome FROM deliveries FINAL GROUP BY alert_id, receiver)
    GROUP BY alert_id
) AS d ON d.alert_id = r.receipt_id"""
_MADE_NOW: Final = "made from the store now"
#: How long after the minute at which it is due the meter needs for a receipt at most.
_SENT_WITHIN_MS: Final = 90_000
KNOWN: Final = "SELECT state FROM jobs FINAL WHERE job_id = {job:String}"
#: The receipt of an id, else the last one of the job of this id.
FOUND: Final = f"""
SELECT r.receipt_id AS receipt_id, r.owner AS owner, r.message AS message, d.outcomes AS outcomes
FROM (SELECT * FROM receipts FINAL WHERE receipt_id = {{id:String}} OR (subject_kind = 'job' AND subject_name = {{id:String}})) AS r {SENT}
ORDER BY r.ended DESC, r.receipt_id LIMIT 1"""  # noqa: S608 - of constants


def unsent_row(
    records: Callable[..., list[dict[str, Any]]], message: bytes, owner: str, due_ms: int
) -> dict[str, object]:
    """A receipt that is made when somebody looks, as a row of `FOUND`; `due_ms` is the minute at which it is due."""
    newest_ms = int(str(records(NEWEST_TICK)[0]["at_ms"]))
    return {"message": message.decode(), "owner": owner, "outcomes": unsent_words(due_ms, newest_ms)}


def unsent_words(due_ms: int, newest_ms: int) -> str:
    """What to say of a receipt that is made when somebody looks: `due_ms` is the minute at which it is due, `newest_ms` the newest that was judged."""
    if newest_ms < due_ms + _SENT_WITHIN_MS:
        return f"not sent yet: due at {instant(due_ms)}, if its owner asked for receipts; {_MADE_NOW}"
    return f"not sent: {_MADE_NOW}"
