"""What is wrong with one field of a record of `gpu`, `network` or `storage`."""

from __future__ import annotations

from schemas.reasons import Reason
from tests.schemas.records import NOW_MS, Case

GPU: list[Case] = [
    ("gpu", {"node": ""}, Reason.out_of_range, 'field `node`: got "", expected a string that is not empty'),
    ("gpu", {"job_id": "x" * 201}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    (
        "gpu",
        {"job_id": 5},
        Reason.wrong_type,
        "field `job_id`: got 5, expected a string of at most 200 bytes",
    ),
    ("gpu", {"id": 5}, Reason.wrong_type, "field `id`: got 5, expected a string"),
    (
        "gpu",
        {"interval_ms": 0},
        Reason.out_of_range,
        "field `interval_ms`: got 0, expected an integer from 1 to 3600000",
    ),
    ("gpu", {"interval_ms": 3_600_001}, Reason.out_of_range, "field `interval_ms`: got 3600001, expected"),
    ("gpu", {"interval_ms": 1e3}, Reason.wrong_type, "field `interval_ms`: got 1000.0, expected an integer"),
    (
        "gpu",
        {"gpus": ...},
        Reason.missing_field,
        "field `gpus`: got nothing, expected an array of GPU ids, or one id",
    ),
    (
        "gpu",
        {"gpus": []},
        Reason.out_of_range,
        "field `gpus`: got [], expected an array of 1 to 1024 GPU ids",
    ),
    ("gpu", {"gpus": "GPU-a"}, Reason.wrong_type, 'field `gpus`: got "GPU-a", expected an array'),
    ("gpu", {"gpus": ["a", 1]}, Reason.wrong_type, "field `gpus[1]`: got 1, expected str"),
    ("gpu", {"gpus": ["a"] * 1025}, Reason.oversize, 'field `gpus`: got ["a", "a", "a"'),
    ("gpu", {"gpus": ..., "gpu": ["a"]}, Reason.wrong_type, 'field `gpu`: got ["a"], expected one GPU id'),
    (
        "gpu",
        {"gpus": ..., "gpu": "a"},
        Reason.unequal_lengths,
        "field `util_ratio`: got [0.5, 1.0], expected as many",
    ),
    (
        "gpu",
        {"util_ratio": ...},
        Reason.missing_field,
        "field `util_ratio`: got nothing, expected an array of numbers",
    ),
    ("gpu", {"util_ratio": [0.5]}, Reason.unequal_lengths, "as many values as there are GPUs (2), not 1"),
    ("gpu", {"util_ratio": 0.5}, Reason.unequal_lengths, "as many values as there are GPUs (2), not 1"),
    (
        "gpu",
        {"util_ratio": [0.5, 1.001]},
        Reason.out_of_range,
        "field `util_ratio[1]`: got 1.001, expected float <= 1.0",
    ),
    (
        "gpu",
        {"util_ratio": [-0.1, 1]},
        Reason.out_of_range,
        "field `util_ratio[0]`: got -0.1, expected float >= 0.0",
    ),
    ("gpu", {"util_ratio": [True, 1]}, Reason.wrong_type, "field `util_ratio[0]`: got true, expected float"),
    ("gpu", {"util_ratio": [None, 1]}, Reason.wrong_type, "field `util_ratio[0]`: got null, expected float"),
    (
        "gpu",
        {"util_ratio": 1.5},
        Reason.out_of_range,
        "field `util_ratio`: got 1.5, expected an array of numbers from 0",
    ),
    (
        "gpu",
        {"util_ratio": "50%"},
        Reason.wrong_type,
        'field `util_ratio`: got "50%", expected an array of numbers',
    ),
    (
        "gpu",
        {"sm_ratio": [0.5]},
        Reason.unequal_lengths,
        "field `sm_ratio`: got [0.5], expected as many values",
    ),
    (
        "gpu",
        {"tensor_ratio": [0.5, 2]},
        Reason.out_of_range,
        "field `tensor_ratio[1]`: got 2, expected float <= 1.0",
    ),
    (
        "gpu",
        {"memory_used_mib": [1, 2, 3]},
        Reason.unequal_lengths,
        "field `memory_used_mib`: got [1.0, 2.0, 3.0]",
    ),
    ("gpu", {"memory_used_mib": [1, -2]}, Reason.out_of_range, "field `memory_used_mib[1]`: got -2"),
    ("gpu", {"power_w": [1, 1e300]}, Reason.out_of_range, "field `power_w[1]`: got 1e+300"),
    ("gpu", {"power_w": []}, Reason.unequal_lengths, "field `power_w`: got [], expected as many values"),
    ("gpu", {"purchase": "owned"}, Reason.unknown_value, 'field `purchase`: got "owned", expected one of'),
]

TRAFFIC: list[Case] = [
    (
        "network",
        {"bytes": -1},
        Reason.out_of_range,
        "field `bytes`: got -1, expected an integer from 0 to 9007199254740992",
    ),
    ("network", {"bytes": 2**53 + 1}, Reason.out_of_range, "field `bytes`: got 9007199254740993, expected"),
    ("network", {"bytes": 1.5}, Reason.wrong_type, "field `bytes`: got 1.5, expected an integer"),
    ("network", {"bytes": ...}, Reason.missing_field, "field `bytes`: got nothing, expected an integer"),
    (
        "network",
        {"path": "moon"},
        Reason.unknown_value,
        'field `path`: got "moon", expected one of same_zone',
    ),
    (
        "network",
        {"direction": "up"},
        Reason.unknown_value,
        'field `direction`: got "up", expected one of egress',
    ),
    ("network", {"interval_ms": 31 * 86_400_000 + 1}, Reason.out_of_range, "to 2678400000 (31 days)"),
    ("network", {"interval_ms": -1}, Reason.out_of_range, "field `interval_ms`: got -1, expected"),
    ("network", {"job_id": ""}, Reason.out_of_range, 'field `job_id`: got "", expected a string of 1 to 200'),
    ("network", {"job_id": "ü" * 101}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    (
        "network",
        {"time_ms": NOW_MS * 2},
        Reason.future,
        "field `time_ms`: got 3520000000000, expected at most",
    ),
    (
        "storage",
        {"op": "rename"},
        Reason.unknown_value,
        'field `op`: got "rename", expected one of read, write',
    ),
    ("storage", {"op": ...}, Reason.missing_field, "field `op`: got nothing, expected one of read, write"),
    (
        "storage",
        {"requests": -1},
        Reason.out_of_range,
        "field `requests`: got -1, expected an integer from 0",
    ),
    ("storage", {"requests": 2**53 + 1}, Reason.out_of_range, "field `requests`: got 9007199254740993"),
    (
        "storage",
        {"requests": ..., "bytes": ...},
        Reason.missing_field,
        "field `bytes`: got nothing, expected an integer",
    ),
    (
        "storage",
        {"op": "list", "requests": ...},
        Reason.missing_field,
        "field `requests`: got nothing, expected",
    ),
    ("storage", {"op": "delete", "requests": None}, Reason.missing_field, "which `op` delete requires"),
    ("storage", {"op": "stored", "bytes": ...}, Reason.missing_field, "which `op` stored requires"),
    ("storage", {"job_id": ""}, Reason.out_of_range, 'field `job_id`: got ""'),
    ("storage", {"storage_class": 1}, Reason.wrong_type, "field `storage_class`: got 1, expected a string"),
]
