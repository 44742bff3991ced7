"""Statements about the receipts and digests that were stored, and what became of their messages."""

from __future__ import annotations

from typing import Final

#: Joined to rows of `receipts AS r`: the last outcome at each receiver.
SENT: Final = """
LEFT ANY JOIN
(
    SELECT alert_id, arrayStringConcat(arraySort(groupUniqArray(outcome)), ', ') AS outcomes
    FROM (SELECT alert_id, receiver, argMax(outcome, (time, attempt)) AS outcome FROM deliveries FINAL GROUP BY alert_id, receiver)
    GROUP BY alert_id
) AS d ON d.alert_id = r.receipt_id"""
#: The outcome of a receipt that is made when somebody looks, and was sent to nobody.
NOT_SENT: Final = "not sent: made from the store now"
KNOWN: Final = "SELECT state FROM jobs FINAL WHERE job_id = {job:String}"
#: The receipt of an id, else the last one of the job of this id.
FOUND: Final = f"""
SELECT r.receipt_id AS receipt_id, r.owner AS owner, r.message AS message, d.outcomes AS outcomes
FROM (SELECT * FROM receipts FINAL WHERE receipt_id = {{id:String}} OR (subject_kind = 'job' AND subject_name = {{id:String}})) AS r {SENT}
ORDER BY r.ended DESC, r.receipt_id LIMIT 1"""  # noqa: S608 - of constants
