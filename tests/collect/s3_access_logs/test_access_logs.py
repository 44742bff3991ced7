"""What access logs become: requests and bytes of each job, by class; and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.collect.s3_access_logs.collector import open_collector
from streams.collect.s3_access_logs.lines import request_of
from streams.collect.s3_access_logs.options import RequestRule
from streams.collect.s3_access_logs.patterns import pattern_of
from tests.collect.flow_logs.polling import Polled, polled
from tests.collect.s3_access_logs.world import ACCESS_LOG, options
from tests.source_cases import source_case

LINE = ACCESS_LOG.read_text().splitlines()[0]


def read(folder: Path, text: bytes | str, **others: Any) -> Polled:
    path = folder / "access.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return polled(open_collector(options(folder, [str(path)], **others)))


def test_requests_of_each_job_by_class_and_minute(tmp_path: Path) -> None:
    found = read(tmp_path, ACCESS_LOG.read_text())
    assert [
        (
            event["job_id"],
            event["attempt"],
            event["op"],
            event["requests"],
            event.get("bytes", 0),
            event["time_ms"] - 1_780_308_000_000,
            event.get("storage_class", ""),
        )
        for event in found.events
    ] == [
        ("run-7", 1, "list", 1, 0, 60_000, "standard"),
        ("run-7", 1, "read", 2, 104_857_600 + 1_048_576, 60_000, "standard"),
        ("run-8", 1, "delete", 1, 0, 120_000, ""),
        ("run-8", 1, "write", 1, 67_108_864, 120_000, ""),
        ("run-9", 2, "read", 1, 500, 120_000, ""),
    ]
    assert {event["region"] for event in found.events} == {"us-west-1"}
    assert found.account.reasons == {"unpaid": 2, "no_node": 1}
    assert found.unattributed_bytes == {"no_node": 243}


@pytest.mark.parametrize(
    ("operation", "op"),
    [
        ("REST.GET.OBJECT", "read"),
        ("REST.HEAD.OBJECT", "read"),
        ("WEBSITE.GET.OBJECT", "read"),
        ("REST.GET.VERSIONING", "read"),
        ("REST.GET.BUCKET", "list"),
        ("REST.GET.BUCKETVERSIONS", "list"),
        ("REST.PUT.OBJECT", "write"),
        ("REST.COPY.OBJECT", "write"),
        ("REST.POST.UPLOADS", "write"),
        ("REST.POST.MULTI_OBJECT_DELETE", "delete"),
        ("BATCH.DELETE.OBJECT", "delete"),
        ("S3.TRANSITION_SIA.OBJECT", None),
        ("nothing", None),
    ],
)
def test_classes_of_operations(operation: str, op: str | None, tmp_path: Path) -> None:
    found = read(tmp_path, LINE.replace("REST.GET.OBJECT", operation))
    assert [event["op"] for event in found.events] == ([] if op is None else [op])


@pytest.mark.parametrize(
    ("pattern", "text", "job_id"),
    [
        ("runs/{job_id}/*", "runs/run-7/a/b", "run-7"),
        ("runs/{job_id}/*", "runs//a", None),
        ("*app/{job_id}*", "Boto3/1 app/run-7 x", "run-7"),
        ("*app/{job_id}", "Boto3/1 app/run-7 x", None),
        ("*a*{job_id}.json", "xaya/run-7.json", "run-7"),
        ("a.b*", "aXb", None),
        ("exact", "exact", ""),
        ("exact", "exactly", None),
        ("*", "anything", ""),
        ("a*a", "a", None),
    ],
)
def test_patterns(pattern: str, text: str, job_id: str | None) -> None:
    found = pattern_of(pattern).fullmatch(text)
    assert (None if found is None else found.groupdict().get("job_id", "")) == job_id


def test_a_hostile_text_makes_no_pattern_slow() -> None:
    """Backtracking over all of its wildcards would outlast the universe."""
    assert pattern_of("*a*a*a*a*a*a*a*{job_id}b").fullmatch("a" * 16_000) is None


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"job_id": "run-7"},
        {"key": "runs/*"},
        {"key": "runs/{job_id}/*", "job_id": "run-7"},
        {"key": "{job_id}", "user_agent": "{job_id}"},
        {"key": "{job_id}*********"},
        {"keys": "{job_id}"},
    ],
)
def test_a_rule_that_names_no_job_or_two_is_refused(rule: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        RequestRule.model_validate(rule)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("01/Jun/2026", "32/Jun/2026", "day is out of range"),
        ("01/Jun/2026", "01/Xxx/2026", "the time is none"),
        ("200 - 104857600", "200 - 1e9", "no number"),
        ("200 - 104857600", "200 - " + "9" * 400, "no number"),
        ("[01", "01", "does not begin"),
        ("REST", "REST" * 5_000, "too long"),
        (LINE[LINE.index(' "Boto3') :], "", "13 fields after the time"),
    ],
)
def test_what_is_no_line_is_said(old: str, new: str, said: str, tmp_path: Path) -> None:
    found = read(tmp_path, LINE.replace(old, new))
    assert (found.events, found.account.reasons) == ([], {"malformed": 1})
    assert said in found.account.said[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"GET /shards/0001.tar', '"GET /shards/"01".tar'),
        ('"GET /shards/0001.tar', '"GET /"'),
        ('"GET /shards/0001.tar', '"GET /"200"-"'),
        ('"-" "Boto3', '"a "quoted" page" "Boto3'),
        ("app/run-7", 'app/"run"-7'),
        ('"GET /shards/0001.tar HTTP/1.1"', '"-"'),
    ],
)
def test_raw_quotes_of_a_requester_lose_no_line(old: str, new: str, tmp_path: Path) -> None:
    assert old in LINE
    found, plain = (read(tmp_path, text) for text in (LINE.replace(old, new), LINE))
    assert found.account.reasons == {}
    same = ("job_id", "op", "requests", "bytes", "region", "time_ms")
    assert [[e[name] for name in same] for e in found.events] == [
        [e[name] for name in same] for e in plain.events
    ]


def test_a_public_report_of_raw_quotes_in_uris(tmp_path: Path) -> None:
    text = (source_case("03-s3-quote-in-uri") / "access.log").read_bytes()
    rules = [{"requester": "arn:aws:sts::*:assumed-role/train/{job_id}"}]
    found = read(tmp_path, text, rules=rules)
    (event,) = found.events
    assert found.account.reasons == {}
    assert (event["job_id"], event["op"], event["requests"]) == ("run-7", "read", 3)
    assert (event["bytes"], event["region"]) == (1_073_743_067, "us-east-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@given(data=st.data())
def test_bytes_changed_at_random(folder: Path, data: st.DataObject) -> None:
    text = bytearray(ACCESS_LOG.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    for event in read(folder, bytes(text)).events:
        assert not isinstance(decode("storage", msgspec.json.encode(event), (), 2**53), Invalid), event


HEAD = "owner bucket [06/Feb/2019:00:01:57 +0000] 192.0.2.3 arn:aws:iam::1:user/x DD6CC733A "
REST = "id SigV4 E AuthHeader b.s3.eu-west-1.amazonaws.com TLSv1.2 - -"


@pytest.mark.parametrize(
    ("line", "op", "size"),
    [
        # What is nothing has quotes, or none (awsdocs/amazon-s3-developer-guide#14).
        (f'REST.GET.OBJECT k - 200 - 700 700 23 22 "-" "UA" - {REST}', "read", 700),
        (f'REST.GET.OBJECT k "-" 200 - 700 700 23 22 "-" "UA" - {REST}', "read", 700),
        (f'REST.GET.OBJECT k "GET /k HTTP/1.1" 200 - 700 700 23 22 - - - {REST}', "read", 700),
        (f'REST.GET.OBJECT k - 200 - 700 700 23 22 "a "b"" "U"A" - {REST}', "read", 700),
        ('S3.TRANSITION_SIA.OBJECT k - - - - 300 - - "-" "-" - - - - - - -', "lifecycle", 0),
        ('S3.EXPIRE.OBJECT k "-" - - - 300 - - "-" "-" - - - - - - -', "", 0),
        (f"BATCH.DELETE.OBJECT k - 204 - - 300 - - - - - {REST}", "delete", 0),
    ],
)
def test_a_request_without_its_text_is_read(line: str, op: str, size: int) -> None:
    found = request_of(HEAD + line)
    assert (found.op, found.bytes, found.key) == (op, size, "k")


def test_the_region_of_a_directory_bucket_is_that_of_its_zone() -> None:
    host = "b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com"
    line = f'REST.GET.OBJECT k "GET /k HTTP/1.1" 200 - 7 7 2 2 "-" "UA" - id SigV4 E AuthHeader {host} TLSv1.2 - -'
    assert request_of(HEAD + line).region == "us-east-1"
