"""`trainfare collect kafka --check`: one line that says which field of which rule fails, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import trainfare

RULE = """
[kafka]
[[kafka.rules]]
name = "start"
topic = "runs"
target = "jobs"
when = "kind == 'run'"
id = ["id"]
constants = { type = "started" }
[kafka.rules.fields]
job_id = "id"
time_ms = { from = "at", unit = "s->ms" }
"""
TWO = RULE + '[[kafka.rules]]\nname = "n"\ntopic = "nodes"\ntarget = "gpu"\nfields = { node = "n" }\n'
GOOD = '{"kind": "run", "id": "a", "at": 1780308000}'


@pytest.mark.parametrize(
    ("text", "sample", "code", "said"),
    [
        (
            RULE,
            '{"kind": "run", "id": "a", "at": "x"}',
            1,
            's.json: rule `start`, field `time_ms`: got "x", expected',
        ),
        (
            RULE,
            '{"kind": "run", "at": 1}',
            1,
            "s.json: rule `start`, part 1 of `id`: got null, expected a text",
        ),
        (
            RULE,
            '{"kind": "run", "id": "a"}',
            1,
            "rule `start`: field `time_ms`: got nothing, expected an integer",
        ),
        (RULE, f'{GOOD}\n{{"kind": "run"}}\n', 1, "s.json, line 2: rule `start`"),
        (RULE, '{"kind": "walk"}', 1, "no rule makes an event of it: every `when` is false"),
        (RULE, '{\n"kind"\n}', 1, "s.json: expected JSON: "),
        (RULE, " \n", 2, "s.json: it is empty"),
        (RULE, None, 2, "s.json: No such file or directory"),
        (
            TWO,
            GOOD,
            2,
            'the map reads 2 topics; expected {"topic": ..., "value": ...} with one of runs, nodes',
        ),
        (TWO, f'{{"topic": "x", "value": {GOOD}}}', 2, "no rule reads topic x; expected one of runs, nodes"),
        (RULE.replace("id == ", "id = "), GOOD, 0, ""),
        (
            RULE.replace("'run'", "'run"),
            GOOD,
            2,
            '[kafka] rules.0.when: "kind == \'run" is no JMESPath',
        ),
        (
            RULE.replace("s->ms", "s->GiB"),
            GOOD,
            2,
            "rules.0.fields.time_ms.unit: expected text, number",
        ),
        (RULE.replace('target = "jobs"', 'target = "prices"'), GOOD, 2, "expected one of jobs, gpu, network"),
        (
            RULE.replace("job_id =", "job ="),
            GOOD,
            2,
            "'job' is no field to map of jobs; see docs/usage_events.md",
        ),
        (RULE.replace('id = ["id"]', ""), GOOD, 2, "`id`: name what tells one event from another"),
        (RULE.replace("type =", "job_id ="), GOOD, 2, "'job_id' is in `fields` and in `constants`"),
        (RULE + RULE.replace("[kafka]\n", ""), GOOD, 2, "two rules are called 'start'"),
        ("[kafka]\nrules = 3\n", GOOD, 2, "rules: input should be a valid list"),
    ],
)
def test_one_line_says_what_is_wrong(
    text: str, sample: str | None, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "map.toml").write_text(text)
    if sample is not None:
        (tmp_path / "s.json").write_text(sample)
    done = trainfare("collect", "kafka", "--check", "s.json", "--config", "map.toml", cwd=tmp_path)
    assert done.code == code, done
    if code:
        assert said in done.one_line()
        assert done.out == ""


def test_a_record_over_many_lines_is_one(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(RULE)
    (tmp_path / "s.json").write_text(GOOD.replace(",", ",\n").replace("{", "{\n"))
    done = trainfare("collect", "kafka", "--check", "s.json", "--config", "map.toml", cwd=tmp_path)
    assert (done.code, done.out.count("\n")) == (0, 1)


def test_all_bad_records_are_said_up_to_a_number(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(RULE)
    bad = '{"kind": "run", "id": "a", "at": "x"}'
    (tmp_path / "s.json").write_text(f"no json\n{GOOD}\n{bad}\n\n{GOOD}\n{bad}\n")
    command = ("collect", "kafka", "--check", "s.json", "--config", "map.toml")
    done = trainfare(*command, cwd=tmp_path)
    said = done.one_line().removeprefix("trainfare: ").split("; ")
    assert [each.partition(": ")[0] for each in said] == [f"s.json, line {n}" for n in (1, 3, 6)]
    (tmp_path / "s.json").write_text(f"{bad}\n" * 23)
    assert trainfare(*command, cwd=tmp_path).one_line().endswith("; and 3 more")


def test_a_map_of_another_collector_is_named(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(RULE)
    done = trainfare("collect", "json-files", "--check", "s.json", "--config", "map.toml", cwd=tmp_path)
    assert done.one_line().endswith(
        "expected a table [json-files]; it has [kafka], which `trainfare collect kafka` reads"
    )


def test_other_collectors_take_no_sample(tmp_path: Path) -> None:
    done = trainfare("collect", "dcgm", "--check", "s.json", cwd=tmp_path)
    assert done.code == 2
    assert "collect dcgm takes no --check; json-files and kafka do" in done.one_line()
