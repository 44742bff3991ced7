"""A folder of controls applied to a real broker: shown, published as a whole, changed, and pruned of its own alone."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from streams.config.settings import KafkaSettings
from streams.transport.controls_log import controls_by_key
from tests.cli.command import Done, trainfare
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka

BUDGET = '[[budget]]\nname = "month"\nteam = "vision"\nusd = "100"\n'
RULE = '[[rule]]\nname = "spikes"\nrule = "burn_fast"\nthresholds = { long_ratio = 3 }\n'
SILENCE = '[[silence]]\nname = "eval"\ncluster = "eval"\n'


@pytest.fixture
def env() -> dict[str, str]:
    """Settings for topics of one test alone."""
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    done = trainfare("topics", "create", env=env)
    assert done.code == 0, done.err
    return env


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "controls"
    made.mkdir()
    (made / "a.toml").write_text(BUDGET + RULE)
    (made / "b.toml").write_text(SILENCE)
    return made


def in_force(env: dict[str, str]) -> dict[str, str]:
    """The source of each control in force."""
    kafka = KafkaSettings(
        bootstrap_servers=env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"],
        topic_prefix=env["TRAINFARE_KAFKA_TOPIC_PREFIX"],
    )
    return {key.decode(): event.source for key, event in controls_by_key(kafka).items()}


def ok(done: Done, code: int = 0) -> list[str]:
    assert (done.code, done.err) == (code, ""), done.err
    return done.out.splitlines()


OURS = dict.fromkeys(("budget/month", "rule/spikes", "silence/eval"), "trainfare/apply")


def test_a_folder_is_shown_applied_changed_and_pruned(
    env: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    def apply(*words: str, code: int = 0) -> list[str]:
        return ok(trainfare("apply", folder, *words, env=env), code)

    shown = apply("--dry-run", code=3)
    assert shown[:3] == [f"+ budget/month  {folder}/a.toml line 1", '    team: "vision"', '    usd: "100"']
    assert shown[-2:] == [
        "3 to add, 0 to change, 0 to remove, 0 unchanged", "nothing was published"
    ]  # fmt: skip
    assert in_force(env) == {}
    assert apply()[-1].startswith("3 records acknowledged by ")
    assert in_force(env) == OURS
    assert apply("--dry-run") == ["0 to add, 0 to change, 0 to remove, 3 unchanged", "nothing was published"]
    assert apply()[-1] == "nothing to do"

    # One made elsewhere is never removed.
    by_hand = tmp_path / "by-hand.jsonl"
    value = {"id": "1", "source": "web", "time_ms": 1_780_308_000_000, "kind": "silence", "name": "page"}
    by_hand.write_text(json.dumps({"topic": "controls", "value": value}) + "\n")
    ok(trainfare("publish", by_hand, env=env))
    (folder / "a.toml").write_text(BUDGET.replace('"100"', '"200"') + RULE)
    (folder / "b.toml").write_text("# nothing\n")
    rows = trainfare("apply", folder, "--dry-run", "--prune", "--format", "csv", env=env)
    assert (rows.code, rows.err) == (3, "trainfare: nothing was published\n")
    assert [list(row.values()) for row in csv.DictReader(io.StringIO(rows.out))] == [
        ["change", "budget", "month", f"{folder}/a.toml line 1", "usd", '"100"', '"200"'],
        ["remove", "silence", "eval", "in no file", "", "", ""],
    ]
    done = apply()
    assert done[:3] == [
        f"~ budget/month  {folder}/a.toml line 1",
        '    usd: "100" -> "200"',
        "? silence/eval  in no file, stays in force",
    ]
    assert done[3] == (
        "0 to add, 1 to change, 0 to remove, 1 unchanged; left in force though in no file: 1, --prune removes;"
        " left alone, as others published them: 1"
    )
    assert in_force(env) == {**OURS, "silence/page": "web"}
    assert apply("--prune", "--set", "others", "--dry-run", code=3)[-2].startswith(
        "0 to add, 2 to change, 0 to"
    )
    assert apply("--prune")[-1].startswith("1 record acknowledged by ")
    left = {key: source for key, source in OURS.items() if key != "silence/eval"}
    assert in_force(env) == {**left, "silence/page": "web"}


def test_what_is_named_beside_the_difference_is_named_beside_data_too(
    env: dict[str, str], folder: Path
) -> None:
    (folder / "a.toml").write_text(BUDGET + 'contact = "nobody"\n')
    note = f'{folder}/a.toml line 5: budget/month: contact: no owner "nobody" has an address'
    assert any(line.startswith(note) for line in ok(trainfare("apply", folder, "--dry-run", env=env), 3))
    done = trainfare("apply", folder, "--dry-run", "--format", "json", env=env)
    assert [row["name"] for row in json.loads(done.out)] == ["month", "month", "month", "eval"]
    assert done.err.startswith(f"trainfare: {note}")


def test_one_control_without_effect_keeps_all_from_being_published(env: dict[str, str], folder: Path) -> None:
    (folder / "c.toml").write_text('\n[[silence]]\nname = "old"\nuntil = 2026-01-01T00:00:00Z\n')
    done = trainfare("apply", folder, env=env)
    assert (done.code, done.out) == (2, "")
    assert f"{folder}/c.toml line 4: silence/old: until_ms: it ended at 2026-01-01 00:00:00 UTC" in done.err
    assert done.err.endswith("trainfare: nothing was published\n")
    assert in_force(env) == {}


def test_publish_refuses_what_changes_nothing_beside_what_is_in_force(
    env: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    ok(trainfare("apply", folder, env=env))
    file = tmp_path / "controls.jsonl"

    def publish(*values: Mapping[str, object]) -> Done:
        common = {"id": "1", "source": "t", "time_ms": 1_780_308_000_000}
        file.write_text(
            "".join(
                json.dumps({"topic": "controls", "value": {**common, **value}}) + "\n" for value in values
            )
        )
        return trainfare("publish", file, env=env)

    ended = {"kind": "silence", "until_ms": 1_780_308_000_000}
    default = {"kind": "rule", "rule": "burn_fast", "thresholds": {"long_ratio": 2.5}}
    narrow = {**default, "name": "narrow", "match": {"team": "v"}}
    override = {"kind": "override", "name": "o", "reason": "x"}
    done = publish(
        {**ended, "name": "none"}, narrow, {**default, "rule": "burn_drift", "name": "x", "thresholds": {}},
        {**override, "budget": "mnth"},
    )  # fmt: skip
    assert done.code == 2
    lines = done.err.splitlines()
    assert [line.partition(": the control would have no effect: ")[2][:30] for line in lines[:-1]] == [
        "silence/none: until_ms: it end", "rule/x: rule: it sets nothing,", "override/o: budget: got \"mnth\""
    ]  # fmt: skip
    assert "did you mean month?" in done.err
    assert lines[-1] == "trainfare: nothing was published"
    # What ends a silence in force, resets a rule, overrides one, or a budget that is there, has an effect.
    taken = publish(
        {**ended, "name": "eval"}, narrow, {**override, "budget": "month"},
        {"kind": "silence", "name": "short"}, {**ended, "name": "short"},
    )  # fmt: skip
    assert taken.code == 0, taken.err
    assert publish({**default, "name": "spikes"}).code == 0
    assert publish({**default, "name": "spikes"}).code == 2
