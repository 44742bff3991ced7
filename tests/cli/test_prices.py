"""`trainfare prices`: a list becomes a file or a table, odd prices are said, and a store shows what holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import NOBODY, trainfare

KAFKA = {"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY}
LIST = """sku,gpu_type,usd,per,from,purchase
h100,H100,4.00,gpu_hour,,
h100,H100,3.50,gpu_hour,2026-10-01,
h100.spot,H100,1.40,gpu_hour,2026-10-01,spot
"""
JOB = {"job_id": "j", "source": "s", "gpu_type": "H100", "gpu_count": 1}
HOUR_MS = 3_600_000
BEGIN_MS = 1_790_812_800_000 - HOUR_MS  # an hour before October


def listed(tmp_path: Path, content: str = LIST) -> Path:
    file = tmp_path / "prices.csv"
    file.write_text(content)
    return file


@pytest.fixture
def metered(tmp_path: Path) -> Path:
    """A store that has replayed the list, written by `--out`, and a job of two hours."""
    out, events = tmp_path / "prices.jsonl", tmp_path / "events.jsonl"
    done = trainfare("prices", "load", listed(tmp_path), "--out", out)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"3 prices written to {out}\n"
    lines = [
        {**JOB, "id": "1", "type": "started", "time_ms": BEGIN_MS},
        {**JOB, "id": "2", "type": "completed", "time_ms": BEGIN_MS + 2 * HOUR_MS},
    ]
    events.write_text("".join(json.dumps({"topic": "jobs", "value": line}) + "\n" for line in lines))
    done = trainfare("replay", out, events, "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    return tmp_path / "meter"


def test_a_list_prices_a_replay_without_kafka(metered: Path) -> None:
    done = trainfare("job", "j", "--data", metered, "--format", "json")
    assert json.loads(done.out)["cost_usd"] == "7.500000000"  # an hour at 4.00 since ever, one at 3.50


def test_show_says_what_holds_and_what_comes_next(metered: Path) -> None:
    done = trainfare("prices", "show", "--data", metered, "--at", "2026-09-01")
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["sku", "component", "usd", "per", "since", "for", "next"],
        ["h100", "gpu", "4.00", "gpu_hour", "ever", "gpu_type=H100", "3.50", "from", "2026-10-01"],
        [
            "h100.spot",
            "gpu",
            "none",
            "yet",
            "gpu_hour",
            "gpu_type=H100",
            "purchase=spot",
            "1.40",
            "from",
            "2026-10-01",
        ],
    ]
    done = trainfare(
        "prices", "show", "--data", metered, "--sku", "h100", "--format", "json", "--at", "2026-10-01"
    )
    (record,) = json.loads(done.out)
    assert (record["usd"], record["since"], record["next_usd"]) == (
        "3.500000000",
        "2026-10-01T00:00:00Z",
        None,
    )
    assert record["gpu_type"] == "H100"
    done = trainfare("prices", "show", "--data", metered, "--gpu-type", "A100")
    assert done.code == 1
    assert "gpu_type 'A100': no price in this store" in done.one_line()
    done = trainfare("prices", "show", "--data", metered, "--at", "yesterday")
    assert done.code == 2
    assert "--at yesterday: no date" in done.one_line()


def test_load_compares_with_the_store(metered: Path, tmp_path: Path) -> None:
    file = listed(tmp_path, "sku,gpu_type,usd,per,from\nh100,H100,35,gpu_hour,2026-11-01\n")
    done = trainfare("prices", "load", file, "--dry-run", "--data", metered)
    assert done.code == 0
    assert done.err.startswith(
        "warning: jump: sku h100 (line 2): $3.5 per gpu_hour before it becomes $35 per gpu_hour from 2026-11-01"
    )
    assert trainfare("prices", "load", file, "--dry-run").err == ""


def test_dry_run_shows_all_and_needs_no_kafka(tmp_path: Path) -> None:
    done = trainfare("prices", "load", listed(tmp_path), "--dry-run", env=KAFKA)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["line", "sku", "component", "usd", "per", "since", "for"]
    assert lines[3].split() == [
        "4",
        "h100.spot",
        "gpu",
        "1.40",
        "gpu_hour",
        "2026-10-01",
        "gpu_type=H100",
        "purchase=spot",
    ]
    assert lines[-1] == "3 prices read as csv; nothing was published"


def test_warnings_are_errors_if_strict(tmp_path: Path) -> None:
    file, out = listed(tmp_path, "sku,usd,per,from\nh\x1b[1m,0,gpu_hour,\n"), tmp_path / "out.jsonl"
    done = trainfare("prices", "load", file, "--strict", "--out", out)
    assert done.code == 2
    first, second = done.err.splitlines()
    assert first.startswith("warning: price 0: sku h\\x1b[1m (line 2): what it matches costs nothing")
    assert second == "trainfare: --strict: 1 warning; nothing was published"
    assert not out.exists()
    assert trainfare("prices", "load", file, "--out", out).code == 0


def test_a_faulty_list_writes_nothing(tmp_path: Path) -> None:
    file, out = listed(tmp_path, LIST + "h100,H100,-1,gpu_hour,2027-01-01,\n"), tmp_path / "out.jsonl"
    done = trainfare("prices", "load", file, "--out", out)
    assert done.code == 2
    assert f"{file} line 5: field `usd`" in done.one_line()
    assert list(tmp_path.iterdir()) == [file]


def test_out_is_never_overwritten(tmp_path: Path) -> None:
    file = listed(tmp_path)
    done = trainfare("prices", "load", file, "--out", file)
    assert done.code == 2
    assert "exists; name a new file" in done.one_line()
    assert file.read_text() == LIST
    done = trainfare("prices", "load", file, "--out", "-")
    assert [json.loads(line)["topic"] for line in done.out.splitlines()] == ["prices"] * 3


def test_options_for_other_formats_are_refused(tmp_path: Path) -> None:
    for words in (("--cloud", "aws"), ("--from", "2026-10-01")):
        done = trainfare("prices", "load", listed(tmp_path), "--dry-run", *words)
        assert done.code == 2
        assert f"{words[0]}: " in done.one_line()
    done = trainfare("prices", "load", listed(tmp_path), "--dry-run", "--from-format", "json")
    assert "not a JSON array" in done.one_line()


BOUGHT = ("prices", "amortize", "--usd", "1000", "--gpus", "1", "--years", "1", "--sku", "s")


def test_amortised_prices_load_as_any_other(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    done = trainfare(*BOUGHT, "--match", "purchase=on_prem", "--from", "2026-10-01", "--out", out)
    assert done.code == 0, done.err
    assert done.out.splitlines()[2].split() == [
        "s.hardware",
        "gpu",
        "0.114155251",
        "gpu_hour",
        "2026-10-01",
        "purchase=on_prem",
    ]
    assert trainfare("prices", "load", out, "--dry-run").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--salvage", "1001"), "--salvage 1001: more than the purchase price"),
        (("--salvage", "1.005"), "--salvage 1.005: expected whole cents"),
        (("--years", "0"), "--years 0: expected whole months"),
        (("--years", "1.01"), "--years 1.01: expected whole months"),
        (("--use", "0"), "--use 0: expected a share above 0"),
        (("--use", "70"), "--use 70: expected a share"),
        (("--pue", "0.9"), "--pue 0.9: expected a ratio from 1 to 10"),
        (("--usd", "1e9"), "--usd 1e9: expected dollars and cents"),
        (("--usd", "0"), "nothing to pay for"),
        (("--kw-per-gpu", "1", "--kw-per-node", "8"), "give one"),
        (("--match", "gpu=H100"), "--match gpu=H100: expected FIELD=VALUE"),
        (("--match", "purchase=stolen"), "field `purchase`"),
        (("--from", "soon"), "--from soon: expected a date"),
        (("--out", "x", "--publish"), "--out and --publish: choose one"),
        (("--usd", "99999999999"), "more than 100000 dollars per GPU-hour"),
    ],
)
def test_amortize_refuses(words: tuple[str, ...], said: str) -> None:
    done = trainfare(*BOUGHT, *words)
    assert done.code == 2
    assert said in done.one_line()


def test_a_flood_of_warnings_is_counted(tmp_path: Path) -> None:
    rows = "".join(f"s{number},0,gpu_hour,,t{number}\n" for number in range(150))
    done = trainfare("prices", "load", listed(tmp_path, "sku,usd,per,from,team\n" + rows), "--dry-run")
    lines = done.err.splitlines()
    assert len(lines) == 101
    assert lines[-1] == "warning: and 50 more like these"


def test_a_catalogue_and_its_notes(tmp_path: Path) -> None:
    file = listed(
        tmp_path,
        "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone\n"
        "p5,H100,8,55.04,10,us-east-1,use1-az1\np5,H100,8,55.04,11,us-east-1,use1-az2\n,H200,8,36,,us-east-1,\n",
    )
    done = trainfare("prices", "load", file, "--dry-run", "--cloud", "aws", "--from", "2026-10-01")
    assert done.code == 0
    assert "note: prices for zones by AWS's ids (use1-az4): 2; they" in done.err
    assert "note: prices of GPUs alone, without a host in the catalogue: 1\n" in done.err
    assert "aws.p5.use1-az2.spot" in done.out
    assert done.out.endswith("4 prices read as skypilot; nothing was published\n")
    done = trainfare("prices", "load", file, "--dry-run")
    assert done.code == 2
    assert "add --cloud NAME" in done.one_line()
