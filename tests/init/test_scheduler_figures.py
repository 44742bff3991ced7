"""What sacct says of a job, times the price: by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.options import Options
from streams.engine.pricing.book import PriceBook
from streams.init.price_file import prices_in
from streams.init.scheduler_figures import SlurmFigures, slurm_figures

_NOW_S = int(datetime(2026, 11, 28, 18, tzinfo=UTC).timestamp())
_TRES = "billing=1,cpu=1,gres/gpu:h100=2,gres/gpu=2,mem=1G"
_OPTIONS = Options(
    since=datetime(2026, 11, 28, 17, tzinfo=UTC),
    gpu_types={"h100": "H100"},
    partition_price_fields={"cheap": {"purchase": "spot"}},
)
_PRICES = "sku,gpu_type,cluster,purchase,usd,per,from\na,H100,quick,,3.60,gpu_hour,\nb,H100,quick,spot,1.80,gpu_hour,\n"


def figures(*lines: str, job_id: str = "17", prices: str = _PRICES) -> SlurmFigures | None:
    book = PriceBook.empty().with_events(prices_in("p.csv", prices, _NOW_S * 1000))
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> bytes:
        asked.append(command)
        return "".join(f"{line}\n" for line in lines).encode()

    return slurm_figures(job_id, _OPTIONS, book, _NOW_S, run)


def test_each_record_counts_from_its_start_to_its_end() -> None:
    found = figures(
        f"REQUEUED|2026-11-28T17:10:00|2026-11-28T17:10:20|batch|quick|{_TRES}",
        f"COMPLETED|2026-11-28T17:12:00|2026-11-28T17:12:30|batch|quick|{_TRES}",
    )
    assert found == SlurmFigures("completed", 2 * 50 * 1_000_000, 100_000_000, True)


def test_what_was_before_the_meter_does_not_count() -> None:
    found = figures(
        f"COMPLETED|2026-11-28T16:00:00|2026-11-28T16:30:00|batch|quick|{_TRES}",
        f"CANCELLED by 0|2026-11-28T16:59:50|2026-11-28T17:00:10|batch|quick|{_TRES}",
    )
    assert found == SlurmFigures("cancelled", 2 * 10 * 1_000_000, 20_000_000, True)


def test_a_job_that_runs_counts_until_now_and_one_that_waits_not_at_all() -> None:
    running = figures(f"RUNNING|2026-11-28T17:59:00|Unknown|batch|quick|{_TRES}")
    assert running == SlurmFigures("running", 2 * 60 * 1_000_000, 120_000_000, True)
    assert figures("PENDING|Unknown|Unknown|batch|quick|") == SlurmFigures("pending", 0, 0, True)


def test_the_price_is_that_of_the_partition_and_the_cluster() -> None:
    line = f"COMPLETED|2026-11-28T17:10:00|2026-11-28T17:10:10|cheap|quick|{_TRES}"
    assert figures(line) == SlurmFigures("completed", 20_000_000, 10_000_000, True)
    other = figures(line.replace("quick", "other"))
    assert other == SlurmFigures("completed", 20_000_000, 0, False)


@pytest.mark.parametrize("job_id", ["17;reboot", "--help", "", "1" * 40, "run-7", "17_3_1"])
def test_an_id_that_is_none_of_slurm_is_not_asked_for(job_id: str) -> None:
    assert figures("nonsense", job_id=job_id) is None


@pytest.mark.parametrize("job_id", ["17", "17_3", "17+1"])
def test_ids_of_slurm_are_asked_for(job_id: str) -> None:
    assert figures(job_id=job_id) == SlurmFigures("", 0, 0, True)


@pytest.mark.parametrize(
    "line",
    [
        "no table",
        "COMPLETED|2026-11-28T17:10:00|2026-11-28T17:10:10|cheap|quick|gres/gpu=many",
        "a|b|c|d|e|f|g",
    ],
)
def test_an_answer_of_another_form_is_told(line: str) -> None:
    with pytest.raises(SourceUnavailableError, match="of another form"):
        figures(line)
