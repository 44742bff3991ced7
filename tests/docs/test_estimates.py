"""The examples of docs/estimates.md: what the page says is what the code computes."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from streams.estimate.elsewhere import Comparison, Elsewhere, compared
from streams.estimate.past import JOBS_WANTED
from streams.estimate.ran import RanJob
from streams.estimate.request import HOURS_AT_MOST
from tests.estimate.build import GPU_HOUR, book, job, paid, price

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "estimates.md").read_text()
SECTION = " ".join(PAGE.partition("\n## Estimates\n")[2].split())


def nano(usd: str) -> int:
    return int(Decimal(usd).scaleb(9))


def numbers(pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, SECTION)
    assert found is not None, pattern
    return found.groups()


def test_another_type_of_gpu() -> None:
    a_usd, a_h, a_cost = numbers(r"A costs \$([\d.]+) x ([\d.]+) h = \$([\d.]+)\.")
    b_usd, factor, b_cost = numbers(r": \$([\d.]+) x ([\d.]+) h = \$([\d.]+), so")
    (saved,) = numbers(r"would have been cheaper by \$([\d.]+)\.")
    (par,) = numbers(r"a factor of 4\.00 / 1\.40 = ([\d.]+)\.")
    assert (a_usd, a_cost, b_usd, factor, b_cost) == ("4.00", "4.00", "1.40", "2.2", "3.08")
    prices = book(price("a", nano(a_usd), gpu_type="A"), price("b", nano(b_usd), gpu_type="B"))
    ran = job(paid(int(Decimal(a_h) * GPU_HOUR), nano(a_cost)), gpu_type="A")
    found = compared(ran, Elsewhere({"gpu_type": "B"}, Fraction(factor)), prices)
    assert (found.ran.cost_nano, found.elsewhere.cost_nano) == (nano(a_cost), nano(b_cost))
    assert found.saved_nano == -nano(saved)
    assert found.break_even_speed is not None
    assert f"{float(found.break_even_speed):.3f}" == par


def on_spot() -> tuple[RanJob, Comparison]:
    gpus, spot, other = numbers(r"(Eight) GPUs at \$([\d.]+) an hour on spot, \$([\d.]+) on demand")
    assert gpus == "Eight"
    runs, kept = numbers(r"runs for ([\d.]+) h and has a checkpoint after ([\d.]+) h")
    starts, rest = numbers(r"starts again for ([\d.]+) h and runs for ([\d.]+) h more")
    gpu_ms = {
        name: int(8 * Decimal(h) * GPU_HOUR)
        for name, h in (("runs", runs), ("starts", starts), ("rest", rest))
    }
    lost = gpu_ms["runs"] - int(8 * Decimal(kept) * GPU_HOUR)
    usd = nano(spot)
    ran = job(
        paid(gpu_ms["runs"], gpu_ms["runs"] * usd // GPU_HOUR, lost=lost, preempted=lost, preempted_nano=lost * usd // GPU_HOUR),
        paid(
            gpu_ms["starts"], gpu_ms["starts"] * usd // GPU_HOUR, attempt=2, starting=True, lost=gpu_ms["starts"],
            preempted=gpu_ms["starts"], preempted_nano=gpu_ms["starts"] * usd // GPU_HOUR,
        ),
        paid(gpu_ms["rest"], gpu_ms["rest"] * usd // GPU_HOUR, attempt=2),
        states=("preempted", "completed"),
        purchase="spot",
    )  # fmt: skip
    prices = book(price("s", usd, purchase="spot"), price("o", nano(other), purchase="on_demand"))
    return ran, compared(ran, Elsewhere({"purchase": "on_demand"}), prices)


def test_did_spot_pay() -> None:
    _, found = on_spot()
    rows = [numbers(rf"\| {side} \| 8 x [\d.]+ = ([\d.]+) \| \$([\d.]+) \| (?:.*? = )?\$([\d.]+) \|")
            for side in ("spot, as it ran", "on demand")]  # fmt: skip
    shown = [(int(Decimal(gpu_h) * GPU_HOUR), nano(cost), nano(lost)) for gpu_h, cost, lost in rows]
    assert shown == [
        (side.gpu_milli_ms, side.cost_nano, side.lost_nano) for side in (found.ran, found.elsewhere)
    ]
    saved, surviving = numbers(r"cheaper by \$([\d.]+)\. Without preemptions it would have cost \$([\d.]+),")
    (par,) = numbers(r"until preemptions cost \$64\.00 - \$24\.00 = \$([\d.]+)\.")
    assert found.saved_nano == nano(saved)
    assert found.ran.cost_nano - found.ran.lost_nano == nano(surviving)
    assert found.break_even_lost_nano == nano(par)


def test_the_limits_of_the_page() -> None:
    assert f"The narrowest with {JOBS_WANTED} jobs counts" in SECTION
    assert HOURS_AT_MOST == 400 * 24
