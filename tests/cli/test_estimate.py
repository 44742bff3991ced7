"""`trainfare estimate` on a replayed log: forecasts, comparisons and refusals, each as a user sees them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import JOB_MINUTES
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.rows import Condition
from tests.cli.command import trainfare

T0_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC


def event(topic: str, at_s: int, **value: object) -> str:
    name = "-".join(str(value.get(part, "")) for part in ("job_id", "attempt", "type", "sku"))
    body = {"source": "t", "id": f"{topic}-{at_s}-{name}", "time_ms": T0_MS + at_s * 1000, **value}
    return json.dumps({"topic": topic, "value": body}) + "\n"


def price(sku: str, usd: str, *, component: str = "gpu", per: str = "gpu_hour", **match: object) -> str:
    return event("prices", 0, sku=sku, component=component, usd=usd, per=per, effective_ms=T0_MS, **match)


def lines() -> Iterator[str]:
    yield price("a", "3.60", gpu_type="A")
    yield price("b", "1.20", gpu_type="B")
    yield price("c", "4.80", gpu_type="C", per="instance_hour", gpus=8)
    yield price("venus.c", "0.40", gpu_type="C", cluster="venus", purchase="on_prem")
    yield price("spot", "1.20", gpu_type="H", purchase="spot")
    yield price("on-demand", "3.60", gpu_type="H", purchase="on_demand")
    yield price("egress", "0.09", component="network", per="gb", path="internet")
    yield event("jobs", 0, job_id="on-a", type="started", gpu_count=1, gpu_type="A")
    yield event("jobs", 3_600, job_id="on-a", type="completed")
    # The example of docs/estimates.md, with other prices: 1.5 h, 1 h of it kept, 0.1 h, 1 h.
    held = {"gpu_count": 8, "gpu_type": "H", "team": "v"}
    yield event("jobs", 0, job_id="s", type="started", purchase="spot", **held)
    yield event("jobs", 3_600, job_id="s", type="checkpointed")
    yield event("network", 4_000, job_id="s", interval_ms=1_000, path="internet", bytes=1_000_000_000)
    yield event("jobs", 5_400, job_id="s", type="preempted")
    yield event("jobs", 5_460, job_id="s", attempt=2, type="allocated")
    yield event("jobs", 5_820, job_id="s", attempt=2, type="started")
    yield event("jobs", 9_420, job_id="s", attempt=2, type="completed")
    for hours in range(1, 7):
        yield event("jobs", 0, job_id=f"o{hours}", type="started", purchase="on_demand", **held)
        yield event("jobs", hours * 3_600, job_id=f"o{hours}", type="completed")
    yield event("jobs", 0, job_id="fails", type="started", purchase="on_demand", **held)
    yield event("jobs", 3_600, job_id="fails", type="failed")
    yield event("jobs", 0, job_id="waits", type="queued")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("estimate")
    (root / "log.jsonl").write_text("".join(lines()))
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


def asked(data: Path, *words: object) -> dict[str, Any]:
    done = trainfare("estimate", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_another_type_with_a_speed_factor(data: Path) -> None:
    found = asked(data, "--of", "on-a", "--gpu-type", "B", "--speed-factor", "2.2")
    assert found["as_it_ran"]["cost_usd"] == "3.600000000"
    assert found["elsewhere"]["cost_usd"] == "2.640000000"
    assert (found["saved_usd"], found["break_even_speed_factor"]) == ("-0.960000000", "3.000")
    assert found["spot"] is None


def test_did_spot_pay(data: Path) -> None:
    found = asked(data, "--of", "s")
    assert (found["different"], found["spot"], found["preemptions"]) == (
        {"purchase": "on_demand"},
        "spot paid",
        1,
    )
    ran, there = found["as_it_ran"], found["elsewhere"]
    # 20.8 GPU-hours at 1.20 and a gigabyte; 4.8 of the hours and the gigabyte were lost.
    assert (ran["gpu_h"], ran["cost_usd"], ran["lost_to_preemptions_usd"]) == (
        "20.800",
        "25.050000000",
        "5.850000000",
    )
    assert (there["gpu_h"], there["cost_usd"], there["lost_to_preemptions_usd"]) == (
        "16.000",
        "57.600000000",
        "0.000000000",
    )
    assert there["components"] == {"gpu": "57.600000000", "network": "0.000000000"}
    assert (found["saved_usd"], found["break_even_lost_usd"]) == ("32.550000000", "38.400000000")
    page = trainfare("estimate", "--of", "s", "--data", data).out
    assert "elsewhere: purchase=on_demand" in page
    assert (
        "spot paid: 1 preemption cost 5.85 USD; it is cheaper as long as they cost less than 38.40 USD\n"
        in page
    )


def test_would_spot_have_paid(data: Path) -> None:
    found = asked(data, "--of", "o2")
    assert (found["different"], found["spot"], found["spot_jobs"]) == (
        {"purchase": "spot"},
        "spot would have paid",
        1,
    )
    # 16 GPU-hours x 20.8 / 16, as the one similar spot job lost.
    assert found["elsewhere"]["gpu_h"] == "20.800"
    assert found["elsewhere"]["cost_usd"] == "24.960000000"
    page = trainfare("estimate", "--of", "o2", "--data", data).out
    assert "nothing named: compared with spot" in page
    assert (
        "spot would have paid: preemptions would cost about 5.76 USD; it is cheaper as long as they cost less than"
        in page
    )
    assert "as it ran: gpu by on-demand at 3.60 USD per gpu_hour\n" in page
    assert "elsewhere: purchase=spot; gpu by spot at 1.20 USD per gpu_hour\n" in page
    named = trainfare("estimate", "--of", "o2", "--purchase", "spot", "--data", data).out
    assert "nothing named" not in named
    assert found["elsewhere"]["prices"] == [
        {"component": "gpu", "sku": "spot", "price_usd": "1.200000000", "per": "gpu_hour"}
    ]
    bare = trainfare("estimate", "--of", "on-a", "--purchase", "spot", "--gpu-type", "B", "--data", data)
    assert "no preemption is assumed" in bare.out


def test_what_a_failure_lost_is_lost_on_spot_too(data: Path) -> None:
    found = asked(data, "--of", "fails")
    assert found["as_it_ran"]["cost_usd"] == "28.800000000"
    # 8 GPU-hours x 20.8 / 16 at 1.20
    assert (found["elsewhere"]["gpu_h"], found["elsewhere"]["cost_usd"]) == ("10.400", "12.480000000")


def test_a_price_says_what_it_is_for_and_a_nearer_one_is_named(data: Path) -> None:
    words = ("estimate", "--gpus", 8, "--gpu-type", "C", "--hours", 10, "--data", data)
    done = trainfare(*words, "--cluster", "venus", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["basis"], row["price_usd"], row["per"], row["cost_usd"]) == (
        "c", "4.800000000", "instance_hour of 8 GPUs", "48.000000000",
    )  # fmt: skip
    assert done.err.splitlines() == [
        "note: no price that applies names cluster=venus: c, a price of any cluster, is taken",
        "note: venus.c is nearer, but asks for purchase=on_prem",
    ]
    own = trainfare(*words, "--cluster", "venus", "--purchase", "on_prem", "--format", "csv")
    assert (own.err, "venus.c" in own.out) == ("", True)


def test_the_expected_cost_says_what_it_rests_on(data: Path) -> None:
    words = ("estimate", "--gpus", 8, "--gpu-type", "H", "--hours", 10, "--data", data)
    for more, said in (
        (("--purchase", "spot"), "expected: 125.25 USD: 10 h as planned, plus 30.0 % that 1 past job lost\n"),
        (("--purchase", "on_demand"), "expected: 288.00 USD: 10 h as planned, plus 0.0 % that 6 past jobs lost\n"),
    ):  # fmt: skip
        assert said in trainfare(*words, *more).out
    like = trainfare("estimate", "--like", "o1", "--data", data).out
    assert "expected: 100.80 USD: 3.5 h, the median of 6 similar past jobs, retries included\n" in like
    assert "from 6 jobs that completed at any time (" in like
    assert (
        "`trainfare job o1` has other medians: it compares with the other jobs of the 30 days before its end\n"
        in like
    )


def test_forecast_of_a_kind_with_history(data: Path) -> None:
    found = asked(
        data, "--gpus", 8, "--gpu-type", "H", "--purchase", "on_demand", "--team", "v", "--hours", 10
    )
    assert found["past"]["kind"] == {"team": "v", "gpu_type": "H", "purchase": "on_demand", "gpus": "8.000"}
    assert (found["jobs"], found["past"]["median_ms"], found["past"]["p90_ms"]) == (
        6,
        3_600_000 * 7 // 2,
        3_600_000 * 11 // 2,
    )
    assert (found["expected"], found["expected_usd"]) == ("with_retries", "288.000000000")
    spot = asked(data, "--gpus", 8, "--gpu-type", "H", "--purchase", "spot", "--hours", 10)
    assert (
        spot["expected_usd"] == "125.250000000"
    )  # 80 GPU-hours x 20.8 / 16 at 1.20, and a gigabyte each 20.8
    assert [case["case"] for case in spot["cases"]] == ["planned", "with_retries", "median", "p90"]


def test_like_a_job_that_ran(data: Path) -> None:
    found = asked(data, "--like", "o1")
    assert (found["gpus"], found["team"], found["expected"]) == ("8.000", "v", "median")
    assert found["fields"] == {"gpu_type": "H", "purchase": "on_demand"}
    assert found["expected_usd"] == "100.800000000"
    assert asked(data, "--like", "o1", "--gpus", "1", "--hours", "1")["cases"][0]["cost_usd"] == "3.600000000"


def test_without_history_it_is_price_x_time_and_says_so(data: Path) -> None:
    words = ("estimate", "--gpus", 2, "--gpu-type", "B", "--hours", 1, "--data", data)
    assert "no similar completed job is in the store: price x time" in trainfare(*words).out
    rows = list(csv.DictReader(io.StringIO(trainfare(*words, "--format", "csv").out)))
    assert [(row["case"], row["component"], row["basis"], row["cost_usd"]) for row in rows] == [
        ("planned", "gpu", "b", "2.400000000")
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--gpus 0 --hours 1", 2, "--gpus 0: a number above 0"),
        ("--gpus 1 --hours -1", 2, "--hours -1: a number above 0"),
        ("--hours 1", 2, "--gpus is needed"),
        ("--gpus 1 --gpu-type B", 2, "--hours is needed"),
        (
            "--gpus 1 --hours 1 --gpu-type H1",
            1,
            "gpu type 'H1': no price and no past job has it; known: A, B, C, H",
        ),
        ("--gpus 1 --hours 1 --gpu-type H", 1, "unpriced: no SKU of component gpu"),
        ("--gpus 1 --hours 1", 2, "name --gpu-type, one of A, B, C"),
        ("--gpus 1 --hours 1 --purchase free", 2, "--purchase free: one of"),
        ("--gpus 1 --hours 1 --speed-factor 2", 2, "--of"),
        ("--of nobody", 1, "job 'nobody': not in this store"),
        ("--like nobody", 1, "job 'nobody': not in this store"),
        ("--of waits", 1, "has paid for nothing yet"),
        ("--of s --gpus 4", 2, "name only what is different"),
        ("--of s --speed-factor 0", 2, "--speed-factor 0: a number above 0"),
        ("--of s --purchase reserved", 1, "unpriced: no SKU of component gpu"),
        ("--of waits --everywhere", 1, "has paid for nothing yet"),
        ("--of s --everywhere --gpu-type B", 2, "--everywhere compares all places"),
    ],
)
def test_refusals_are_one_clear_line(words: str, code: int, said: str, data: Path) -> None:
    done = trainfare("estimate", *words.split(), "--data", data)
    assert (done.code, done.out) == (code, "")
    assert said in done.one_line()


def test_everywhere_the_cheapest_place_comes_first(data: Path) -> None:
    done = trainfare("estimate", "--of", "o2", "--everywhere", "--data", data)
    rows = [line.split("  ")[0] for line in done.out.splitlines()]
    note = "another GPU type is priced as if the job took as long there; same_cost_at_time_x says how much longer it may take"
    assert rows == [
        "place", "as it ran", "cluster=venus, gpu_type=C, purchase=on_prem", "gpu_type=C", "gpu_type=B", "purchase=spot",
        "gpu_type=A", note,
    ]  # fmt: skip
    found = asked(data, "--of", "o2", "--everywhere")
    assert [place["difference_usd"] for place in found["places"]] == [
        "-51.200000000", "-48.000000000", "-38.400000000", "-32.640000000", "0.000000000",
    ]  # fmt: skip
    alone = asked(data, "--of", "o2", "--purchase", "spot")
    assert found["places"][3] == {
        **alone["elsewhere"],
        "different": {"purchase": "spot"},
        "difference_usd": alone["saved_usd"],
        "break_even_speed_factor": alone["break_even_speed_factor"],
        "spot_jobs": 1,
        "not_in_price": {},
    }


def test_a_job_whose_minutes_were_dropped_is_not_priced_by_the_rest(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "meter", symlinks=True)
    for conditions in ([Condition("minute", "<", T0_MS + 3_600_000)], []):
        store = ClickHouseStore(Embedded(data_dir=copy))
        try:
            store.delete(JOB_MINUTES, [Condition("job_id", "=", "s"), *conditions])
        finally:
            store.close()
        done = trainfare("estimate", "--of", "s", "--data", copy)
        assert (done.code, done.out) == (1, "")
        assert "meter.minutes_retention_days" in done.one_line()


def test_a_price_of_any_purchase_is_said_to_be_one(data: Path) -> None:
    words = ("--gpus", "8", "--gpu-type", "A", "--hours", "36", "--purchase", "spot")
    done = trainfare("estimate", *words, "--data", data, "--format", "json")
    said = "note: no price that applies names purchase=spot: a, a price of any purchase, is taken\n"
    assert (done.code, done.err) == (0, said)
    found = json.loads(done.out)
    assert (found["expected_usd"], found["not_in_price"]) == ("1036.800000000", {"purchase": "a"})
    assert asked(data, *words[:-2])["not_in_price"] == {}, "a purchase was not asked for"
    done = trainfare("estimate", "--of", "on-a", "--purchase", "spot", "--data", data, "--format", "json")
    assert (done.err, json.loads(done.out)["not_in_price"]) == (said, {"purchase": "a"})


def test_everywhere_before_it_runs_each_place_is_the_estimate_of_its_fields(data: Path) -> None:
    planned = ("--gpus", "8", "--hours", "2")
    found = asked(data, *planned, "--gpu-type", "H", "--purchase", "spot", "--everywhere")
    assert (
        found["as_planned"]["cost_usd"]
        == asked(data, *planned, "--gpu-type", "H", "--purchase", "spot")["expected_usd"]
    )
    costs = [place["cost_usd"] for place in found["places"]]
    assert costs == sorted(costs, key=float)
    wanted = [{"gpu_type": "B", "purchase": "on_demand"}, {"purchase": "on_demand"}]
    assert [place["different"] for place in found["places"] if place["different"] in wanted] == wanted
    for place in found["places"]:
        if not place["past_jobs"]:  # it loses as much there as where it is planned
            assert (place["case"], place["wall_clock_ms"]) == (
                "with_retries",
                found["as_planned"]["wall_clock_ms"],
            )
            continue
        fields = {"gpu_type": "H", "purchase": "spot"} | place["different"]
        options = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", value)]
        done = trainfare("estimate", *planned, *options, "--data", data, "--format", "json")
        assert json.loads(done.out)["expected_usd"] == place["cost_usd"], fields
    assert {place["past_jobs"] for place in found["places"]} == {0, 6}
    done = trainfare(
        "estimate", *planned, "--gpu-type", "H", "--purchase", "spot", "--everywhere", "--data", data
    )
    assert [line.split("  ")[0] for line in done.out.splitlines()][:2] == ["place", "as planned"]
