"""Labels: what a file of them may be, and what is said of any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.backtest.labels import Label, read_labels
from streams.errors import WrongUseError

FILE = Path("labels.csv")
HEAD = b"job_id,kind,from_ms,until_ms\n"


def test_columns_in_any_order_and_others_beside_them() -> None:
    content = b'\xef\xbb\xbfkind,note,until_ms,job_id,from_ms\n3x,"a, b",20,run-1,10\n\n10x,,9,run-1,8\n'
    assert read_labels(content, FILE) == [Label("run-1", "3x", 10, 20), Label("run-1", "10x", 8, 9)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "labels.csv: no column job_id, kind, from_ms, until_ms; its first line must name"),
        (b"job_id,kind,until_ms\n", "labels.csv: no column from_ms; "),
        (HEAD, "labels.csv: has no label"),
        (HEAD + b"run-1,3x,10\n", "labels.csv line 2: until_ms is '', expected ms since 1970 UTC"),
        (HEAD + b"run-1,3x,10.5,20\n", "labels.csv line 2: from_ms is '10.5', expected"),
        (HEAD + b"run-1,3x,-1,20\n", "labels.csv line 2: from_ms is '-1', expected"),
        (HEAD + b"run-1,3x,1,99999999999999\n", "labels.csv line 2: until_ms is '99999999999999', expected"),
        (HEAD + b"run-1,3x,1," + b"9" * 5000 + b"\n", "labels.csv line 2: until_ms is '9999"),
        (HEAD + b"a,3x,1,2\n,3x,10,20\n", "labels.csv line 3: job_id is empty"),
        (HEAD + b"run-1,,10,20\n", "labels.csv line 2: kind is empty"),
        (HEAD + b"run-1,3x,20,20\n", "labels.csv line 2: until_ms 20 is not after from_ms 20"),
        (HEAD + b"run-1,3x,1,20\nrun-1,3x,1,20\n", "labels.csv line 3: this label is in the file twice"),
        (HEAD + b'run-1,"3x,1,20\n', "labels.csv after line 1: unexpected end of data"),
        (b"\xff\xfe", "labels.csv: not UTF-8 at byte 0"),
    ],
)  # fmt: skip
def test_any_other_file_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        read_labels(content, FILE)
    assert str(refused.value).startswith(said)
