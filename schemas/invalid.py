"""A refused record, as a value.

A refusal is a result that is counted and stored, and stops nothing.
"""

import msgspec

from schemas.reasons import Reason


class Invalid(msgspec.Struct, frozen=True, gc=False):
    """Why a record was refused, for machines and for people.

    The detail contains the field, the value (shortened) and what was expected: "field `usd`: got -1, expected a decimal
    string in [0, 100000)".
    """

    reason: Reason
    detail: str
