"""Files of controls: each table is a record, and each that would have no effect is refused with its file and line."""

from __future__ import annotations

import json

import pytest

from schemas.decode import decode
from streams.controls.file import KINDS, TABLES_AT_MOST, FileContent, read_controls_file
from streams.controls.folder import read_folder
from streams.engine.alerts.controls import Controls
from streams.errors import WrongUseError
from tests.cli.command import ROOT

NOW_MS = 1_795_000_000_000


def read(text: str) -> FileContent:
    return read_controls_file("f.toml", text, "trainfare/apply", NOW_MS)


def faults(text: str) -> list[str]:
    return read(text).faults


def test_a_table_is_the_record_that_publish_would_send() -> None:
    (record,) = read(
        '\n[[silence]]\nname = "night"\nteam = "vision"\nuntil = 2026-06-01T08:00:00.001+02:00\n'
    ).records
    assert (record.key, record.table.line, record.where) == (b"silence/night", 2, "f.toml line 2")
    value = json.loads(record.value)
    assert value.pop("id") == record.event.id
    assert value == {
        "source": "trainfare/apply", "time_ms": NOW_MS, "kind": "silence", "name": "night", "team": "vision",
        "until_ms": 1_780_293_600_001,
    }  # fmt: skip
    assert decode("controls", record.value, [], NOW_MS) == record.event


def test_the_id_is_a_function_of_what_a_table_says() -> None:
    text = '[[silence]]\nname = "a"\nteam = "v"\n'
    (one,), (other,) = read(text).records, read(text.replace('"v"', '"w"')).records
    (later,) = read_controls_file("g.toml", "\n" + text, "x", NOW_MS + 1).records
    assert one.event.id == later.event.id != other.event.id


def test_every_kind_that_people_set_has_tables() -> None:
    assert set(KINDS) == {
        "owner",
        "budget",
        "silence",
        "team",
        "planned",
        "override",
        "ack",
        "rule",
        "receipt",
        "operator",
    }
    folder = read_folder(ROOT / "examples" / "controls", "t", NOW_MS)
    assert (folder.files, folder.faults) == (6, [])
    assert {record.event.kind for record in folder.records} == {*KINDS} - {"ack"}
    assert Controls.from_events(record.event for record in folder.records).faults == ()
    ack = '[[ack]]\nname = "al_000000000000000000000000"\nalert_id = "al_000000000000000000000000"\n'
    assert faults(ack) == []


REFUSED = (
    # A misspelt field: at the top, inside an inline table, a dotted key, a table of its own.
    ('[[budget]]\nname = "b"\nusd = 1\ntem = "v"', 4, "budget/b: tem: no such match field", "mean team?"),
    ('[[budget]]\nname = "b"\nusd = 1\nteam = "v"\nusdd = 1', 5, "usdd: no such match field", "mean usd?"),
    ('[[rule]]\nname = "r"\nrule = "traffic"\nmatch = { tem = "v" }', 4, "rule/r: tem: no such", "mean team?"),
    ('[[rule]]\nname = "r"\nrule = "traffic"\nmatch.team = "v"\nmatch.tem = "v"', 5, "tem: no such", "team?"),
    ('[[rule]]\nname = "r"\nrule = "traffic"\n[rule.match]\n\ntem = "v"', 6, "tem: no such", "mean team?"),
    ('[[owner]]\nname = "o"\nslak = "https://x"', 3, "owner/o: slak: no such field", "mean slack?"),
    ('[[receipt]]\nname = "o"\non = true\nownr = "a"', 4, "ownr: no such field", "mean owner?"),
    ('[[planned]]\nname = "p"\nusd_per_hour = 1\nuntill = 2026-12-01', 4, "untill: no such", "mean until"),
    # A kind that does not exist, or is none for people.
    ('[[silnce]]\nname = "s"', 1, "'silnce': no kind of controls", "did you mean silence?"),
    ('[[source]]\nname = "s"', 1, "[[source]]: what a source has read is said by its collector", ""),
    # An unknown rule, threshold, severity, action.
    ('[[rule]]\nname = "r"\nrule = "burn_fsat"', 3, 'rule: got "burn_fsat"', "did you mean burn_fast?"),
    ('[[silence]]\nname = "s"\nrule = "trafic"', 3, 'rule: got "trafic"', "did you mean traffic?"),
    ('[[rule]]\nname = "r"\nrule = "traffic"\nthresholds = { rato = 2 }', 4, "no such threshold", "ratio?"),
    ('[[rule]]\nname = "r"\nrule = "traffic"\n\nseverity = "loud"', 5, 'severity: got "loud"', ""),
    ('[[budget]]\nname = "b"\nusd = 1\naction = "halt"', 4, "field `action`: got ***, expected one of", ""),
    # Out of bounds, of the wrong type.
    ('[[rule]]\nname = "r"\nrule = "traffic"\n[rule.thresholds]\n#\nratio = 0', 6, "ratio: got 0, expected", ""),
    ('[[rule]]\nname = "r"\nrule = "traffic"\nthresholds.ratio = inf', 4, "thresholds.ratio: got inf", ""),
    ('[[rule]]\nname = "r"\nrule = "traffic"\nthresholds.ratio = "2"', 4, 'ratio: got "2", expected a number', ""),
    ('[[budget]]\nname = "b"\nusd = 1\nper = "mounth"', 4, "field `per`: got ***, expected one of", "did you mean month?"),
    ('[[budget]]\nname = "b"\nusd = "ten"', 3, "field `usd`: got ***", ""),
    ('[[budget]]\nname = "b"\nusd = 0', 3, "usd: got 0, expected a number above 0", ""),
    ('[[budget]]\nname = "b"\nusd = 1\nteam = 5', 4, "team: expected a string", ""),
    ('[[receipt]]\nname = "o"\non = "yes"', 3, 'on: got "yes", expected true or false', ""),
    ('[[owner]]\nname = "o"\nemail = 5', 3, "email: expected a string", ""),
    ('[[silence]]\nteam = "v"', 1, "[[silence]]: name: expected the name of this record", ""),
    ('[[owner]]\nname = "o"\nemail = "a@b"\ncomment = 5', 4, "comment: got 5, expected a string", ""),
    # A ladder out of order; one step named twice.
    (
        '[[budget]]\nname = "b"\nusd = 1\nactions = [\n{ do = "stop", at = 1 },\n{ do = "notify", at = 0.5 }]',
        4, "actions: a later one begins at a smaller share", "",
    ),
    ('[[budget]]\nname = "b"\nusd = 1\nactions = ["stop", "stop"]', 4, "actions: one is named twice", ""),
    # What cannot match.
    ('[[rule]]\nname = "r"\nrule = "unallocated"\nmatch = { team = "v" }', 4, "takes no match fields", ""),
    ('[[silence]]\nname = "s"\nrule = "budget_used"\ngpu_type = "H100"', 4, "gpu_type: alerts of budget_used", ""),
    ('[[silence]]\nname = "s"\nrule = "price_jump"\nmatch = { team = "v" }', 4, "team: alerts of price_jump", ""),
    ('[[silence]]\nname = "s"\nrule = "traffic"\njob = ""', 4, "job_id: it is empty", ""),
    # Instants.
    ('[[silence]]\nname = "s"\nuntil = 2026-06-01T08:00:00', 3, "until: got 2026-06-01T08:00:00, expected", "Z"),
    ('[[silence]]\nname = "s"\nuntil = "tomorrow"', 3, "until: got another value, expected a date-time", ""),
    ('[[silence]]\nname = "s"\nuntil_ms = 2026-06-01T08:00:00Z', 3, "until_ms: expected ms", "until = 2026-06"),
    ('[[silence]]\nname = "s"\nuntil_ms = 5\nuntil = 2026-06-01T08:00:00Z', 4, "until: until_ms says it, too", ""),
    (
        '[[silence]]\nname = "s"\nfrom = 2027-06-01T08:00:00Z\nuntil = 2027-06-01T07:00:00Z',
        4, "until_ms: got 1811833200000, expected an instant after from_ms", "",
    ),
    # What is not a table's to say, and what no record can hold.
    ('[[silence]]\nname = "s"\nsource = "x"', 3, "source: it is set when the record is published", ""),
    (f'[[silence]]\nname = "s"\nteam = {2**70}', 3, "team: expected a string", ""),
    (f'[[silence]]\nname = "{"x" * 300}"', 2, "field `name`: got ***", ""),
    (f'[[silence]]\nname = "s"\n{".".join("a" * 1_500)} = 1', 1, "nested too deeply", ""),
)  # fmt: skip


@pytest.mark.parametrize(("text", "line", "says", "meant"), REFUSED)
def test_what_has_no_effect_is_refused_with_file_and_line(
    text: str, line: int, says: str, meant: str
) -> None:
    before = '# a\n[[silence]]\nname = "good"\nteam = "a"\n'
    found = read(before + text.replace('"s"', '"bad"') + "\n")
    (fault,) = found.faults
    assert fault.startswith(f"f.toml line {line + 4}: ")
    assert says in fault
    assert fault.endswith(meant) or meant in fault
    assert [record.event.name for record in found.records if record.event.kind == "silence"] == ["good"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "\n\ntitle = 1",
            "f.toml line 3: 'title': no kind of controls, expected tables [[owner]], [[budget]]",
        ),
        ('\n[silence]\nname = "s"', "write [[silence]] before each"),
        ("rule = [1]", "f.toml line 1: 'rule': expected tables"),
    ],
)
def test_what_is_no_array_of_tables_is_refused(text: str, says: str) -> None:
    (fault,) = faults(text)
    assert says in fault


def test_no_address_is_in_a_refusal() -> None:
    lines = faults(
        '[[owner]]\nname = "o"\nwebhok = "https://hooks.example.com/secret"\nslack = ["https://secret"]\n'
    )
    assert len(lines) == 2
    assert "secret" not in str(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = 1\n[[x]\n", "f.toml line 2: no TOML: Expected ']]'"),
        (
            '[[silence]]\nname = "s"\nteam = "a"\nteam = "b"\n',
            "f.toml line 4: no TOML: Cannot overwrite a value",
        ),
        (f"x = {'[' * 2_000}{']' * 2_000}\n", "f.toml: no TOML of controls: nested too deeply"),
        ("#" * 5_000, "f.toml line 1: more than 4096 characters"),
        ("#\n" * 2**19 + "x", "f.toml: more than 1048576 characters"),
    ],
)
def test_a_text_that_is_no_file_of_controls_is_refused_as_a_whole(text: str, says: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        read(text)
    assert says in str(refused.value)


def test_a_file_has_so_many_tables_of_a_kind() -> None:
    text = "".join(f'[[silence]]\nname = "{k}"\nteam = "v"\n' for k in range(TABLES_AT_MOST + 1))
    assert faults(text) == [
        f"f.toml line 1: {TABLES_AT_MOST + 1:,} tables [[silence]], {TABLES_AT_MOST} at most in a file"
    ]
