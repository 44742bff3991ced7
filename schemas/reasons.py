"""The outcomes of a record, and the machine-readable reasons of dead letters.

No wording for people: that is the detail of the refusal.
"""

from enum import StrEnum
from typing import Final

#: Each input record is counted as exactly one of these.
OUTCOMES: Final = ("applied", "unattributed", "duplicate", "too_late", "dead_lettered")


class Reason(StrEnum):
    """Why a record was refused; members are named as they are stored and counted."""

    not_an_object = "not_an_object"
    malformed_json = "malformed_json"
    unknown_topic = "unknown_topic"
    unknown_type = "unknown_type"
    unknown_value = "unknown_value"  # of an enum other than `type`
    missing_field = "missing_field"
    wrong_type = "wrong_type"
    out_of_range = "out_of_range"  # negative, too large, before 2000, too many decimals, empty, a long job id
    too_long = "too_long"  # a name, id or label, or too many of them in one object
    nul_byte = "nul_byte"  # in a name, id or label
    reserved_name = "reserved_name"  # the canary's without its proof, or a word of the meter's own tables
    not_finite = "not_finite"
    unequal_lengths = "unequal_lengths"
    inconsistent = "inconsistent"  # fields that exclude or contradict each other
    oversize = "oversize"  # the record's bytes, or more GPUs than a record may have
    future = "future"
    too_late = "too_late"
    bad_envelope = "bad_envelope"  # CloudEvents
    unread_batch = "unread_batch"  # too large when decompressed
    beyond_token = "beyond_token"  # noqa: S105 - over HTTP: names what its sender's token may not
    wrong_partition = "wrong_partition"  # not that of its key
