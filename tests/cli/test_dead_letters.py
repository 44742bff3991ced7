"""`trainfare dead-letters`: what was refused is listed, shown and judged; nothing of a stranger reaches the terminal raw."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import xxhash

from schemas.reasons import Reason
from schemas.redaction import withheld
from streams.accounts.refused import ADVICE
from streams.cli.dead_letters.advice import field_of, pretty
from streams.cli.dead_letters.letters import Letter, selection
from streams.cli.dead_letters.log import Original
from streams.cli.dead_letters.resend import Outcome, judge
from streams.config.settings import MeterSettings
from streams.engine.shard.dead_letters import REPLAY_HEADER, RecordPosition
from streams.errors import WrongUseError
from tests.cli.command import trainfare

T0 = 1_780_308_000_000
MINUTE = 60_000


def job(number: int, **more: object) -> dict[str, object]:
    return {"id": str(number), "source": "s", "time_ms": T0 + number * MINUTE, "job_id": "a", **more}


def line(value: dict[str, object]) -> str:
    return json.dumps({"topic": "jobs", "value": value})


LINES = [
    line(job(0, type="started", gpu_count=2)),
    line(job(1, type="scaled", gpu_count="\x1b[31mtwo")),
    line(job(2, type="scaled", nodes={"n1": {"x": 1}})),
    "{oops \x9b",
    json.dumps({"topic": "control", "value": {"kind": "owner", "slak": "https://hooks.example.com/s3cr3t"}}),
    json.dumps({"topic": "controls", "value": {"kind": "owner", "name": "ada", "slak": "s3cr3t"}})[:-1],
    json.dumps({"topic": "controls", "value": {"kind": "owner", "name": "ada", "slak": "s3cr3t"}}),
    json.dumps({"topic": "controls", "value": {**job(9), "kind": "owner", "name": "eve", "slak": "s3cr3t"}}),
    line(job(3, type="completed")),
]


EACH = ["controls/0/0", "jobs/0/1", "jobs/0/2", "replay/0/4", "replay/0/5", "replay/0/6"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with dead letters of jobs, of lines and of a control; another control, of an owner, is applied."""
    root = tmp_path_factory.mktemp("letters")
    (root / "log.jsonl").write_text("\n".join(LINES) + "\n")
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 2, "a control of them has no effect"
    return root / "meter"


def test_the_list_is_grouped_with_counts_and_an_example(data: Path) -> None:
    done = trainfare("dead-letters", "list", "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, "")
    rows = {(row["topic"], row["reason"]): row for row in json.loads(done.out)}
    assert set(rows) == {
        ("jobs", "wrong_type"),
        ("replay", "malformed_json"),
        ("replay", "unknown_topic"),
        ("controls", "missing_field"),
    }
    wrong = rows["jobs", "wrong_type"]
    assert (wrong["records"], wrong["stored"], wrong["replayed"]) == (2, 2, 0)
    assert (wrong["first"], wrong["last"]) == ("2026-06-01T10:00:00Z", "2026-06-01T10:00:00Z")
    assert wrong["example"].startswith("field `nodes.n1`")


@pytest.mark.parametrize("words", [("dead-letters", "list"), ("dead-letters", "list", "--each"), ("jobs",)])
def test_a_list_that_the_limit_cuts_says_so(data: Path, words: tuple[str, ...]) -> None:
    said = "trainfare: the first 1 row is shown, and there may be more: give a larger --limit\n"
    done = trainfare(*words, "--data", data, "--limit", "1", "--format", "table")
    assert (len(done.out.splitlines()), done.err) == (2, said)
    for more in (("--limit", "1", "--format", "csv"), ("--limit", "20", "--format", "table")):
        assert trainfare(*words, "--data", data, *more).err == ""


def test_filters(data: Path) -> None:
    def places(*words: str) -> list[str]:
        done = trainfare("dead-letters", "list", "--each", "--data", data, "--format", "json", *words)
        assert (done.code, done.err) == (0, "")
        return [row["place"] for row in json.loads(done.out)]

    assert places("--topic", "trainfare.jobs", "--reason", "wrong_type", "--limit", "1") == ["jobs/0/1"]
    assert places("--since", "2026-06-01T12:00+02:00", "--until", "2026-06-01T10:00:01") == EACH
    assert places("--since", "2026-06-01T10:00:01") == []


def test_one_is_shown_with_the_field_at_fault_and_what_to_do(data: Path) -> None:
    done = trainfare("dead-letters", "show", "jobs/0/1", "--data", data)
    assert (done.code, done.err) == (0, "")
    assert '"gpu_count": "\\u001b[31mtwo"   <-- gpu_count' in done.out
    assert "\x1b" not in done.out
    assert "replayed     no" in done.out
    assert "`trainfare replay FILE --append`" in done.out, "the log of this store is files"
    shown = json.loads(trainfare("dead-letters", "show", "replay/0/4", "--data", data, "-f", "json").out)
    assert (shown["raw"], shown["reason"], shown["raw_is_cut"]) == ("{oops \x9b", "malformed_json", False)


@pytest.mark.parametrize("place", ["controls/0/0", "replay/0/5", "replay/0/6"])
def test_a_control_is_shown_without_its_values(data: Path, place: str) -> None:
    done = trainfare("dead-letters", "show", place, "--data", data)
    assert (done.code, done.err) == (0, "")
    assert '"withheld": true' in done.out
    assert "s3cr3t" not in done.out


def test_no_table_holds_an_address_of_an_owner(data: Path) -> None:
    for table in ("dead_letters", "meta", "alerts", "deliveries", "books"):
        done = trainfare("sql", f"SELECT * FROM {table}", "--data", data, "--format", "json")
        assert done.code == 0 or table != "dead_letters"
        assert "s3cr3t" not in done.out + done.err, table


def test_letters_of_files_are_not_sent_to_kafka(data: Path) -> None:
    done = trainfare("dead-letters", "replay", "--topic", "jobs", "--data", data)
    assert (done.code, done.out) == (2, "")
    assert "is files given to `trainfare replay`, not Kafka: mend the lines" in done.one_line()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay",), "say which dead letters"),
        (("replay", "gpu/1"), "gpu/1: no dead letter; expected TOPIC/PARTITION/OFFSET"),
        (("list", "--reason", "odd"), "--reason odd: no such reason; one of not_an_object, "),
        (("list", "--since", "soon"), "--since soon: no instant"),
        (("show", "a/b"), "a/b: no dead letter"),
    ],
)
def test_wrong_use_is_said_before_anything_is_asked(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = trainfare("dead-letters", *words, "--data", tmp_path / "none")
    assert (done.code, done.out) == (2, "")
    assert said in done.one_line()


def test_a_letter_that_is_not_there(data: Path) -> None:
    done = trainfare("dead-letters", "show", "jobs/0/99", "--data", data)
    assert (done.code, done.out) == (1, "")
    assert "jobs/0/99: no such dead letter in this store" in done.one_line()


# -- instants, fields, judging -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "since_ms"),
    [
        ("90s", T0 - 90_000),
        ("2h", T0 - 7_200_000),
        ("7d", T0 - 7 * 86_400_000),
        ("2026-06-01T10:00", T0),
        ("2026-06-01T12:00+02:00", T0),
        ("2026-06-01", T0 - 36_000_000),
        (str(T0), T0),
    ],
)
def test_instants(text: str, since_ms: int) -> None:
    assert selection(None, None, text, None, (), prefix="", now_ms=T0).since_ms == since_ms


@pytest.mark.parametrize("text", ["", "7", "2 h", "-2h", "yesterday", "2026-13-01"])
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(WrongUseError):
        selection(None, None, text, None, (), prefix="", now_ms=T0)


def test_there_is_advice_for_every_reason() -> None:
    assert set(ADVICE) == set(Reason)


def test_the_arrow_stands_at_the_field_in_depth() -> None:
    raw = b'{"a":{"b":1},"nodes":{"b":{"x":1},"c":2}}'
    (marked,) = (text for text in pretty(raw, "nodes.b").splitlines() if "<--" in text)
    assert marked == '    "b": {   <-- nodes.b'
    assert "<--" not in pretty(raw, None)
    assert "<--" not in pretty(raw, "nowhere")
    assert field_of("field `a.b`: got 1, expected 2") == "a.b"
    assert field_of("record: got nothing") is None


def test_what_does_not_print_is_escaped() -> None:
    assert pretty(b'{"a": "\xc2\x9b\xe2\x80\xae"}', None) == '{\n  "a": "\\x9b\\u202e"\n}'
    assert pretty(b"\xff\x1b{", None) == "\\xff\\x1b{"


METER = MeterSettings()
AT = datetime(2026, 6, 1, 10, tzinfo=UTC)


def letter(
    raw: bytes, reason: str = "future", detail: str = "", topic: str = "jobs", size: int = -1
) -> Letter:
    size = len(raw) if size < 0 else size
    return Letter(
        RecordPosition(topic, 0, 7),
        AT,
        reason,
        detail,
        size,
        xxhash.xxh3_64_intdigest(raw[:size]),
        None,
        None,
    )


GOOD = json.dumps(job(0, type="queued")).encode()


def test_what_was_of_the_future_goes_when_its_time_has_come() -> None:
    found = Original(b"a", GOOD, [("h", b"1"), (REPLAY_HEADER, b"jobs/0/3")])
    early = judge(letter(GOOD), found, None, METER, T0 - 300_001, force=False)
    assert (early.outcome, early.record) == (Outcome.REFUSED, None)
    assert early.why.startswith("future: field `time_ms`")
    due = judge(letter(GOOD), found, None, METER, T0 - 300_000, force=False)
    assert due.outcome is Outcome.SEND
    assert due.record == Original(b"a", GOOD, [("h", b"1"), (REPLAY_HEADER, b"jobs/0/7")])
    forced = judge(letter(GOOD), found, None, METER, T0 - 300_001, force=True)
    assert (forced.outcome, forced.record) == (Outcome.SEND, due.record)


def test_what_was_in_the_wrong_partition_goes_with_the_key_that_places_it() -> None:
    found = Original(b"wrong", GOOD, [])
    kept = judge(letter(GOOD), found, None, METER, T0, force=False).record
    moved = judge(letter(GOOD, "wrong_partition"), found, None, METER, T0, force=False).record
    assert kept is not None
    assert moved is not None
    assert (kept.key, moved.key) == (b"wrong", json.loads(GOOD)["job_id"].encode())


def test_what_was_too_late_goes_when_the_horizon_was_raised() -> None:
    late = letter(
        GOOD, "too_late", f"field `time_ms`: {T0} is 90000000 ms before the newest event of its partition"
    )
    found = Original(b"a", GOOD, [])
    assert judge(late, found, None, METER, T0, force=False).outcome is Outcome.REFUSED
    raised = METER.model_copy(update={"job_horizon_ms": 90_000_000})
    assert judge(late, found, None, raised, T0, force=False).outcome is Outcome.SEND


def test_without_the_log_the_table_will_do_if_it_has_the_whole_record() -> None:
    done = judge(letter(GOOD), None, GOOD, METER, T0, force=False)
    assert done.outcome is Outcome.SEND
    assert done.record == Original(b"a", GOOD, [(REPLAY_HEADER, b"jobs/0/7")])
    assert "from the table" in done.why
    assert judge(letter(GOOD), None, None, METER, T0, force=True).outcome is Outcome.GONE


def test_another_record_in_its_place_is_not_sent() -> None:
    other = Original(b"a", GOOD + b" ", [])
    assert judge(letter(GOOD), other, None, METER, T0, force=True).outcome is Outcome.OTHER
    whole = GOOD + b" " * 2_000
    cut = letter(whole, size=1_024)
    assert judge(cut, Original(b"a", whole, []), None, METER, T0, force=False).outcome is Outcome.SEND


def test_a_withheld_record_comes_back_from_the_log_and_not_from_the_table() -> None:
    value = json.dumps({"kind": "owner", "name": "ann", "slak": "https://example.com/s3cr3t"}).encode()
    for topic, force in (("controls", True), ("jobs", True)):
        stood_in = letter(withheld(value), topic=topic, reason="missing_field")
        found = Original(b"owner/ann", value, [])
        sent = judge(stood_in, found, None, METER, T0, force=force)
        assert sent.record is not None
        assert sent.record.value == value
        assert "s3cr3t" not in sent.why
        other = Original(b"owner/ann", value + b" ", [])
        assert judge(stood_in, other, None, METER, T0, force=True).outcome is Outcome.OTHER
        gone = judge(stood_in, None, withheld(value), METER, T0, force=True)
        assert (gone.outcome, gone.record) == (Outcome.GONE, None)
        assert gone.why == "the log no longer has it, and the table withholds its values"
    cut = letter(value, topic="controls", size=len(value))
    assert judge(cut, None, value, METER, T0, force=True).outcome is Outcome.GONE, "of an earlier version"


def test_a_control_is_sent_by_force_only() -> None:
    value = {
        "id": "1",
        "source": "s",
        "time_ms": T0,
        "kind": "owner",
        "name": "ann",
        "slack": "https://example.com/a",
    }
    raw = json.dumps(value).encode()
    found = Original(b"owner/ann", raw, [])
    assert (
        judge(letter(raw, topic="controls"), found, None, METER, T0, force=False).outcome is Outcome.CONTROL
    )
    assert judge(letter(raw, topic="controls"), found, None, METER, T0, force=True).outcome is Outcome.SEND
