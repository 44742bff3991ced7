"""Seeds that once showed a fault, and what it was; they are run before all others.

A seed says the same only as long as nothing else is drawn and no process takes its time differently: most of these are
ordinary seeds by now.  So each of the faults has a test of its own besides, near the code that was wrong.
"""

from __future__ import annotations

KNOWN: dict[int, str] = {
    3: "books of a former owner said that minutes were stored which its successor had taken back: a budget was told late",
    50: "a hole was given up though nothing had come since it was asked for",
    88: "a node that goes on asked for checkpoints without end",
    96: "a record of the future that was sent again after a gap still counted as refused (a fault of the simulator)",
    149: "a sample without a job stood in the partition of a job, and two shards wrote its rows (a fault of the simulator)",
    229: "a snapshot did not say that an attempt had its first samples: after a takeover its hour was without usage",
    240: "an action that was asked for while the run ended had no time to be sent (a fault of the simulator)",
    248: "an owner stored an alert and nothing else, and its successor's versions were not above it",
    262: "a sweep stumbled over a job that was on its way to the archive",
    301: "the same, with a late row of the owner before",
    377: "a worker frozen while it joined took an old answer for membership, and wrote",
    502: "a worker that was out took its successor's rows for those of an older group, and won over them",
    648: "receipts that landed after a takeover were read together with alerts of a former owner: two ids for one",
    716: "a shard was taken over between the look at its books and a weekly digest: it said what was not taken back yet",
    739: "a job left for the archive before a tick saw the price that ends its alert: it fired for ever",
    880: "traffic was free at first, so its job left the windows: a price that came later opened no alert",
    1014: "an alert across jobs that a former owner stored after the takeover was known to the new one, and not sent",
    1029: "the same, where it was resolved",
    1278: "an insert of a failed attempt to restore landed after the next attempt, under its versions",
    1340: "rows of usage of an owner that had replayed less stood over what the newest snapshot counts as written",
    1417: "an alert across jobs whose insert was not acknowledged was stored, not sent, and fired for ever",
    1690: "a receipt that a former owner stored after the takeover was not sent by the new one",
    1744: "costs at the cap added up to more than 64 bits hold (the simulator's own sum did not wrap)",
    1799: "books were raised to the snapshot before rows of an owner that had replayed less were written again: two levels of a budget fired at one minute",
    2078: "a sweep was cut short by another takeover, and late rows older than the new snapshot stayed",
    2103: "a job left for the archive before any tick had seen it: no alert",
    2491: "an alert that merely kept firing said why by what was known when its row was stored, not at its tick",
    2698: "an attempt known by its traffic alone stayed metered after it was queued",
    4787: "records that came twice and left nothing to store counted as waiting for ever: reading paused",
    5284: "books of a former owner that landed after a takeover said that its successor had stored what it had taken back",
    6554: "a row of a node that was not paid said that the fleet had come up: new nodes were a burst (a fault of the simulator)",
    10351: "as 4787",
    25569: "the first workers stopped before they had judged an hour, and the next ones began with the last hour",
    27968: "whoever stored what was left no longer said that it lived (a fault of the simulator)",
    28279: "minutes that were judged again ended an alert of a budget that was published after them",
    28994: "a log without a record (the simulator took none for granted)",
    33383: "whoever read a price handed in equal controls anew: an alert of a job that had left all windows held again",
    34718: "a job left for the archive before a tick saw the price that opens an alert",
    64361: "a job left for the archive while its alert fired: the next owner did not see how long it held",
    66720: "an owner with an old snapshot opened an alert again that was over, and ended: its row stayed",
    66810: "a job without a price had left all windows: how long its alert held, and whether, was by chance",
}

#: The same where workers die in the middle of sending rows and come back under their static names.
KNOWN_LATE: dict[int, str] = {
    116: "a receipt whose insert was not acknowledged was stored, and not sent by the worker that had stored it",
    105: "a late shard was not waited for any longer, yet expected to be told of in time (a fault of the simulator)",
    173: "the last records of a log were not believed, as older ones had come with them: time stood still",
    330: "a shard had stored none of its jobs when it was judged, and was not judged again (a fault of the simulator)",
    411: "a life that had tried to restore several times gave later versions than the next one: its last row stayed",
}
