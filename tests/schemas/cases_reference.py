"""What is wrong with one field of a record of `nodes`, `prices` or `controls`."""

from __future__ import annotations

from schemas.reasons import Reason
from tests.schemas.records import NOW_MS, Case

OTHERS: list[Case] = [
    ("nodes", {"type": "gone"}, Reason.unknown_type, 'field `type`: got "gone", expected one of provisioned'),
    ("nodes", {"node": ""}, Reason.out_of_range, 'field `node`: got ""'),
    (
        "nodes",
        {"gpu_count": 100_001},
        Reason.out_of_range,
        "field `gpu_count`: got 100001, expected a number",
    ),
    ("nodes", {"gpu_count": 0.0005}, Reason.out_of_range, "with at most three decimals"),
    ("nodes", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
    (
        "prices",
        {"usd": 2.5},
        Reason.wrong_type,
        "field `usd`: got 2.5, expected a decimal string in [0, 100000)",
    ),
    (
        "prices",
        {"usd": "-0.01"},
        Reason.out_of_range,
        'field `usd`: got "-0.01", expected a decimal string in [0,',
    ),
    (
        "prices",
        {"usd": "100000"},
        Reason.out_of_range,
        'field `usd`: got "100000", expected a decimal string in',
    ),
    ("prices", {"usd": "1.0000000001"}, Reason.out_of_range, 'field `usd`: got "1.0000000001", expected'),
    (
        "prices",
        {"usd": "Infinity"},
        Reason.not_finite,
        'field `usd`: got "Infinity", expected a decimal string',
    ),
    ("prices", {"usd": "1e3"}, Reason.wrong_type, 'field `usd`: got "1e3", expected a decimal string'),
    ("prices", {"usd": ""}, Reason.wrong_type, 'field `usd`: got "", expected a decimal string'),
    (
        "prices",
        {"gpus": 0},
        Reason.out_of_range,
        "field `gpus`: got 0, expected an integer from 1 to 1000000",
    ),
    ("prices", {"gpus": 1_000_001}, Reason.out_of_range, "field `gpus`: got 1000001, expected"),
    (
        "prices",
        {"component": "compute", "gpus": 8},
        Reason.inconsistent,
        "field `gpus`: got 8, expected none: an instance_hour of compute is per instance",
    ),
    (
        "prices",
        {"gpus": ...},
        Reason.inconsistent,
        "field `gpus`: got nothing, expected the GPUs of an instance_hour of gpu",
    ),
    (
        "prices",
        {"component": "tax"},
        Reason.unknown_value,
        'field `component`: got "tax", expected one of gpu',
    ),
    (
        "prices",
        {"per": "fortnight"},
        Reason.unknown_value,
        'field `per`: got "fortnight", expected one of gpu_hour',
    ),
    (
        "prices",
        {"per": "gib"},
        Reason.inconsistent,
        'field `per`: got "gib", expected one of gpu_hour, instance_hour for',
    ),
    (
        "prices",
        {"effective_ms": -1},
        Reason.out_of_range,
        "field `effective_ms`: got -1, expected an integer of ms",
    ),
    ("prices", {"effective_ms": 10**14}, Reason.out_of_range, "field `effective_ms`: got 100000000000000"),
    (
        "prices",
        {"effective_ms": 0.5},
        Reason.wrong_type,
        "field `effective_ms`: got 0.5, expected an integer",
    ),
    ("prices", {"sku": ""}, Reason.out_of_range, 'field `sku`: got ""'),
    ("prices", {"region": 1}, Reason.wrong_type, "field `region`: got 1, expected a string"),
    ("prices", {"path": "moon"}, Reason.unknown_value, 'field `path`: got "moon"'),
    ("prices", {"op": "moon"}, Reason.unknown_value, 'field `op`: got "moon"'),
    ("prices", {"direction": "moon"}, Reason.unknown_value, 'field `direction`: got "moon"'),
    ("prices", {"purchase": "moon"}, Reason.unknown_value, 'field `purchase`: got "moon"'),
    ("prices", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
    (
        "controls",
        {"kind": "wish"},
        Reason.unknown_value,
        "field `kind`: got ***, expected one of owner, budget",
    ),
    (
        "controls",
        {"name": 5},
        Reason.wrong_type,
        "field `name`: got ***, expected a string that is not empty",
    ),
    ("controls", {"usd": "-5"}, Reason.out_of_range, "field `usd`: got ***, expected a decimal string"),
    (
        "controls",
        {"gpu_hours": -5},
        Reason.out_of_range,
        "field `gpu_hours`: got ***, expected a number from 0",
    ),
    (
        "controls",
        {"usd_per_hour": -5},
        Reason.out_of_range,
        "field `usd_per_hour`: got ***, expected a number",
    ),
    ("controls", {"period": "eon"}, Reason.unknown_value, "field `period`: got ***, expected one of month"),
    (
        "controls",
        {"action": "beg"},
        Reason.unknown_value,
        "field `action`: got ***, expected one of notify",
    ),
    ("controls", {"until_ms": "tomorrow"}, Reason.wrong_type, "field `until_ms`: got ***, expected"),
    ("controls", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
]
