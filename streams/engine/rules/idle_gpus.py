"""`idle_gpus`: a job is paid for GPUs that do hardly any work, for long and for enough dollars.

`idle_check` finds the jobs: sums are those of the coverage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.durations import MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import idle_evidence
from streams.engine.rules.formatting import gpus, rounded_usd, short, short_instant, span
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.job_view import Fallen, IdleSince, IdleUse, JobAt, JobRule, Unused, Words, yields_to
from streams.engine.rules.rule import (
    JOB,
    PAGE_FROM,
    TICKET,
    Margin,
    Threshold,
    flag,
    from_threshold_on,
    page_from,
    unless_zero,
    usual_up_to,
)

#: Use is judged in blocks: in each of them the GPUs idle, so that no work before stands for them.
BLOCK_MINUTES: Final = 10
#: More of them add no dollars.
BLOCKS_AT_MOST: Final = 30
LAG_MINUTES: Final = 2
_NAMED_AT_MOST: Final = 4
_TELL_OF_IT: Final = ("stalled", "slow_progress")
_UNUSED: Final = " GPUs unused"
#: Samples cover at least this share of the GPU-time that its events say it held.
COVERED_RATIO: Final = 0.5
#: GPUs whose share of work is below the first have fallen to nothing; they worked, if it was at least the second.
FALLEN_RATIO: Final = 0.02
WORKED_RATIO: Final = 0.5
#: `spinning` is about GPUs of which this share is busy.
SPINNING_FROM_RATIO: Final = 0.9
WORKED_MINUTES: Final = 10
#: GPU-time of one GPU in a minute in which it is busy without a break differs from a minute by less (ms).
UNBROKEN_WITHIN_MS: Final = 300
#: GPUs that were busy so much may as well have worked without a break.
UNBROKEN_RATIO: Final = 0.98
#: GPUs idle for longer than in their phases before, between times of work, by this factor, in halves.
LONGEST_HALVES: Final = 3
#: No phase is so usual that no alert opens after so long.
USUAL_AT_MOST_MINUTES: Final = 180
LOOKBACK_MINUTES: Final = 360
_MIB_PER_GIB: Final = 1024


def is_long(use: IdleUse, least_nano: int) -> bool:
    """Whether the GPUs have been idle for so long, and for so many dollars, that it is reported."""
    return (
        use.minutes >= use.wait_minutes
        and use.minutes >= usual_minutes(use.longest_before)
        and use.idle_nano >= least_nano
        and is_covered(use.sampled_ms, use.held_ms)
    )


def usual_minutes(longest_before: int) -> float:
    """For how many minutes GPUs idle as usual, by the longest phase that the job had before."""
    return min(LONGEST_HALVES * longest_before / 2, USUAL_AT_MOST_MINUTES)


def is_covered(sampled_ms: int, held_ms: int) -> bool:
    """Whether samples are of most of the GPU-time that was held."""
    return sampled_ms > 0 and sampled_ms * 1000 >= COVERED_RATIO * held_ms


def has_fallen(fallen: Fallen | None, thresholds: Mapping[str, float]) -> bool:
    """Whether all GPUs of a dear job fell to nothing at one time, or have done nothing yet, for longer than in its phases before."""
    return (
        fallen is not None
        and (fallen.worked_before or fallen.since_start)
        and fallen.minutes >= fallen_wait(fallen, thresholds)
        and 2 * fallen.minutes >= LONGEST_HALVES * fallen.longest_before
        and fallen.on_all_nodes
        and is_covered(fallen.sampled_ms, fallen.held_ms)
        and fallen.nano_per_hour >= round(thresholds[PAGE_FROM] * NANO_PER_USD)
    )


def fallen_wait(fallen: Fallen, thresholds: Mapping[str, float]) -> float:
    """For how many minutes GPUs do nothing before it is reported: data are staged and images pulled where they did not work yet."""
    return thresholds["fallen_minutes" if fallen.worked_before else "start_minutes"]


def is_unused(unused: Unused | None, least_minutes: float, least_nano: int) -> bool:
    """Whether single GPUs did nothing for so long, and for so many dollars, that it is reported."""
    return unused is not None and unused.minutes >= least_minutes and unused.idle_nano >= least_nano


def _shown_unused(unused: Unused, at_ms: int) -> str:
    """Which they are: `1 of 16 GPUs unused for 2 h at $2.49/h: GPU 3 of node n1 did nothing since 09:00 UTC`."""
    nodes: dict[str, list[str]] = {}
    for node, gpu in unused.gpus:
        nodes.setdefault(node, []).append(gpu)
    named = [
        f"GPU {', '.join(short(gpu) for gpu in of[:_NAMED_AT_MOST])} of node {short(node)}"
        for node, of in [*nodes.items()][:_NAMED_AT_MOST]
    ]
    since = short_instant(at_ms - LAG_MINUTES * MINUTE_MS - unused.minutes * MINUTE_MS, at_ms)
    count = f"{len(unused.gpus)} of {unused.sampled}{_UNUSED}"
    paid_minutes = min(unused.minutes, BLOCKS_AT_MOST * BLOCK_MINUTES)
    rate = rounded_usd(unused.idle_nano * 60 // max(paid_minutes, 1))
    length = span(unused.minutes * MINUTE_MS)
    return f"{count} for {length} at {rate}/h: {'; '.join(named)} did nothing since {since} UTC"


def shown_use(at: JobAt) -> tuple[IdleSince, str] | None:
    """Since when the GPUs idle, and what they do, in words: `0 % since 11:07 UTC with up to 68 GiB held`."""
    since = at.idle_since()
    if since is None:
        return None
    percent = f"{100 * since.productive_ratio:.1f}".removesuffix(".0")
    held = f" with up to {since.memory_mib / _MIB_PER_GIB:.0f} GiB held" if since.memory_mib else ""
    return since, f"{percent} % since {short_instant(since.since_ms, at.at_ms)} UTC{held}"


def _yields(at: JobAt, way: int = 0) -> list[Margin]:
    return [yields_to(other, "idle_gpus", at, way) for other in _TELL_OF_IT]


def _cause(at: JobAt) -> str:
    if at.idle is not None and at.idle.unused is not None:
        return _shown_unused(at.idle.unused, at.at_ms)
    shown = shown_use(at)
    if shown is None:
        return "its GPUs idle"
    since, use = shown
    return f"{gpus(since.gpu_milli)} idle for {span(at.at_ms - since.since_ms)}: {use}"


def _stood(at: JobAt) -> int | None:
    """None of a job whose GPUs wait for people, and where they have idled for longer than is looked back."""
    since = at.idle_since()
    if (
        since is None
        or not since.is_first
        or at.job is None
        or is_interactive(dict(at.job.dimensions().labels or ()))
    ):
        return None
    return since.since_ms


def _waste(at: JobAt, paid_nano_per_hour: int) -> int:
    """What is paid for the idle part of the GPUs' time."""
    use = at.idle
    if use is not None and use.unused is not None:
        return paid_nano_per_hour * len(use.unused.gpus) // use.unused.sampled
    if use is None or use.minutes < use.wait_minutes:  # they fell to nothing
        return paid_nano_per_hour
    return paid_nano_per_hour * (use.sampled_ms - use.productive_ms) // use.sampled_ms


def _covered(sampled_ms: int, held_ms: int, way: int) -> Margin:
    covered = None
    if sampled_ms:
        covered = sampled_ms * 1000 / held_ms if held_ms else COVERED_RATIO
    return from_threshold_on("sampled share of the GPU-time that it held", covered, COVERED_RATIO, way)


def _margins(at: JobAt) -> list[Margin]:
    of, use = at.settings["idle_gpus"], at.idle
    if use is None:
        what = "minutes of idle GPUs, in whole tens"
        return [Margin(what, None, of["minutes"], None)]
    usd = use.idle_nano / NANO_PER_USD
    found = [
        *_yields(at),
        from_threshold_on(
            "minutes of idle GPUs, in whole tens",
            float(use.minutes),
            max(use.wait_minutes, usual_minutes(use.longest_before)),
        ),
        _covered(use.sampled_ms, use.held_ms, 0),
    ]
    found += unless_zero("dollars paid for idle GPUs meanwhile", usd, of["least_usd"])
    fallen = use.fallen
    if fallen is not None:
        wait = max(fallen_wait(fallen, of), LONGEST_HALVES * fallen.longest_before / 2)
        found += [
            *_yields(at, 1),
            from_threshold_on("minutes for which all GPUs did nothing", float(fallen.minutes), wait, 1),
            flag("all of them worked before, or none has yet", fallen.worked_before or fallen.since_start, 1),
            flag("on all nodes", fallen.on_all_nodes, 1),
            _covered(fallen.sampled_ms, fallen.held_ms, 1),
        ]
        rate = fallen.nano_per_hour / NANO_PER_USD
        found += unless_zero("dollars per hour that it pays", rate, of[PAGE_FROM], 1)
    unused = use.unused
    if unused is not None:
        usd = unused.idle_nano / NANO_PER_USD
        found += [
            *_yields(at, 2),
            from_threshold_on(
                "minutes for which single GPUs did nothing", float(unused.minutes), of["gpu_minutes"], 2
            ),
        ]
        found += unless_zero("dollars paid for these meanwhile", usd, of["least_usd"], 2)
    return found


RULE: Final = JobRule(
    name="idle_gpus",
    title="Idle GPUs",
    severity=TICKET,
    about=JOB,
    holds=(
        "less than 20 % of the sampled GPU-time was [productive](cost_model.md#samples) in each ten minutes "
        "of the last 50, for 1.5 times as long as in any phase before, and $5 were paid for the rest. With the "
        "label `interactive`: of the last 2 h. A job of $100/h or more: already 12 min after all of its GPUs "
        "fell to 0 % at one time, or 30 min after its first sample if they did not work yet. Or single GPUs of it did nothing for 2 h while others worked, and $5 were paid for them"
    ),
    runbook="runbook.md#idle-gpus",
    yields_to=_TELL_OF_IT,
    thresholds={
        "productive_ratio": Threshold(0.2, 0.001, 1.0, "productive share of sampled GPU-time in 10 min"),
        "minutes": Threshold(50, 10, 300, "minutes for which GPUs idle, in whole tens"),
        "interactive_minutes": Threshold(120, 10, 300, "the same, of a job with the label `interactive`"),
        "least_usd": Threshold(5, 0, 1e9, "dollars paid for the idle part of their time, of 5 h at most"),
        "gpu_minutes": Threshold(
            120, 10, 10_080, "minutes for which single GPUs did nothing while others worked"
        ),
        "fallen_minutes": Threshold(12, 5, 300, "minutes since all GPUs of a job that pages fell to 0 %"),
        "start_minutes": Threshold(
            30, 5, 300, "minutes for which no GPU of a job that pages has worked since it began to run"
        ),
    }
    | page_from("dollars per hour that are paid for idle GPUs")
    | usual_up_to(),
    window_ms=5 * MINUTE_MS,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: idle_evidence(of.job_id, of.held_ms),
    words=Words(
        "leaves {cause}",
        "stop it or give GPUs back",
        "uses its GPUs again",
        advice_on=((_UNUSED, "look whether they are dead, or ask for fewer"),),
        partly_on=_UNUSED,
    ),
    stood=_stood,
    goes_on="all",
    usual_by="length",
    waste=_waste,
    inhibited_by=("straggler",),
)
