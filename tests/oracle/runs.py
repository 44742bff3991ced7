"""By the contract (docs/gpu_rules.md, docs/runs.md): where jobs of one run break off one after another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
FOREVER = 10**18
SHELLS = ("bash", "sh", "zsh", "fish", "csh", "tcsh", "interactive", "jupyter")


class PlainAttempt(NamedTuple):
    job: str
    began_ms: int
    ended_ms: int  # FOREVER: it goes on
    state: str
    reason: str
    lost_nano: int
    cost_nano: int = 0


def without_number(name: str) -> str:
    """ "the name but for endings that have a digit" """
    parts = re.split(r"(?=[-_.:/])", name)
    while len(parts) > 1 and re.search(r"\d", parts[-1]):
        parts.pop()
    return "".join(parts) if not (len(parts) == 1 and re.match(r"[-_.:/].*\d", parts[0])) else ""


def run_of(job: dict[str, str], labels: dict[str, str]) -> tuple[str, ...] | None:
    """ "one run_id; else one owner, name without its running number, experiment likewise, and directory" """
    name = without_number(job["job_id"].split("/")[-1])
    name = "" if name.isdigit() else name
    experiment = without_number(job["experiment"]) or job["experiment"]
    if any(labels.get(name) for name in ("slurm_array_job_id", "slurm_het_job_id", "ci_job")):
        return None
    if (
        labels.get("interactive", "no") not in ("", "no", "0", "false")
        or name in SHELLS
        or experiment in SHELLS
    ):
        return None
    if job["run_id"]:
        return ("run", job["owner"], job["team"], job["run_id"])
    if not job["owner"] or not name + experiment:
        return None
    return ("name", job["owner"], job["team"], name, experiment, job["work_dir"])


def resubmit_loop(
    attempts: Sequence[PlainAttempt],
    at_ms: int,
    failures: int = 4,
    dear_failures: int = 3,
    lost_usd: float = 25,
    preemptions: int = 6,
    slow_hours: float = 12,
    slow_usd_per_hour: float = 100,
) -> list[PlainAttempt]:
    """The attempts of one run that are a loop at an instant, of what had happened by then, the last one first; none: there is no loop."""
    began = [each for each in attempts if each.began_ms <= at_ms]
    known = [
        each if each.ended_ms <= at_ms else each._replace(ended_ms=FOREVER, state="running") for each in began
    ]
    loops = []
    done = [each.ended_ms for each in known if each.state in ("completed", "cancelled")]
    for kinds, least in ((("failed", "superseded"), failures), (("preempted",), preemptions)):
        broken = sorted(
            (each for each in known if each.state in kinds), key=lambda each: (each.ended_ms, each.job)
        )
        for end in range(len(broken)):
            last_ms = broken[end].ended_ms
            if any(last_ms <= each <= at_ms for each in done):
                continue
            pair = (
                chain(known, broken[: end + 1], done, slow_hours * HOUR_MS)[:2] if "failed" in kinds else []
            )
            # "it ends half as long again as between them after the last"
            if _is_slow(pair, slow_usd_per_hour) and at_ms < last_ms + 3 * (last_ms - pair[1].ended_ms) // 2:
                loops.append(pair)
            # "until an hour after the last, or until one is completed or cancelled"
            if at_ms >= last_ms + HOUR_MS:
                continue
            found = chain(known, broken[: end + 1], done)
            is_dear = sum(each.lost_nano for each in found) >= lost_usd * 10**9
            enough = dear_failures if is_dear and "failed" in kinds else least
            if len({each.job for each in found}) > 1 and len(found) >= min(enough, least):
                loops.append(found)
    return max(loops, key=lambda loop: loop[0].ended_ms, default=[])


def _is_slow(pair: Sequence[PlainAttempt], usd_per_hour: float) -> bool:
    """ "2 in a row failed within 12 h, and lost $100/h and half of what they cost", an hour apart or more"""
    if len({each.job for each in pair}) < 2 or pair[0].ended_ms - pair[1].ended_ms < HOUR_MS:
        return False
    lost, length_ms = sum(each.lost_nano for each in pair), pair[0].ended_ms - pair[1].began_ms
    is_dear = lost * HOUR_MS // max(length_ms, 15 * MINUTE_MS) >= usd_per_hour * 10**9
    return is_dear and 2 * lost >= sum(each.cost_nano for each in pair)


class PlainLoop(NamedTuple):
    """An alert about a run that failed again and again: the job that it is about, and when it fired."""

    job: str
    began_ms: int
    over_ms: int


def loop_alerts(
    attempts: Sequence[PlainAttempt], told: Sequence[tuple[int, int]], until_ms: int
) -> list[PlainLoop]:
    """The alerts of `resubmit_loop` about a run, at whole minutes; `told`: when alerts of `retry_loop` about its jobs fired."""
    found: list[PlainLoop] = []
    is_open = False
    ends = sorted({each.ended_ms for each in attempts})
    first_ms = ends[0] // MINUTE_MS * MINUTE_MS if len(ends) > 1 else until_ms
    for at_ms in range(first_ms, until_ms + 1, MINUTE_MS):
        is_near = is_open or any(0 <= at_ms - end_ms < HOUR_MS for end_ms in ends)
        loop = resubmit_loop(attempts, at_ms) if is_near else []
        if is_open and not loop:
            found[-1] = found[-1]._replace(over_ms=at_ms)
        # "What opened a `retry_loop` of one of the jobs opens none"
        if loop and not is_open and any(began <= at_ms and over > loop[-1].ended_ms for began, over in told):
            continue
        if loop and not is_open:
            found.append(PlainLoop(loop[0].job, at_ms, FOREVER))
        is_open = bool(loop)
    return found


class PlainSpan(NamedTuple):
    """When a job went on, of what was known at an instant; `ended_ms` is FOREVER while it does."""

    began_ms: int
    ended_ms: int
    job: str
    state: str


def one_run(spans: Sequence[PlainSpan], *, by_name: bool) -> list[list[str]]:
    """ "After a job that was completed another run begins"; without `run_id` see docs/runs.md; the jobs of each, the oldest first."""
    runs: list[list[PlainSpan]] = []
    for each in sorted(spans):
        last = max(runs[-1], key=lambda span: span.ended_ms) if runs else None
        if last is None:
            is_next = False
        elif by_name:
            # "each job begins within a day after the one before has failed or was preempted, and goes on at no time with another"
            is_broken = last.state in ("failed", "superseded", "preempted")
            is_soon = each.began_ms - last.ended_ms <= 24 * HOUR_MS
            is_next = is_broken and is_soon and not (_beside(last, spans) or _beside(each, spans))
        else:
            is_next = last.state != "completed" or each.began_ms < last.ended_ms
        if is_next:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [[each.job for each in run] for run in runs]


def _beside(one: PlainSpan, spans: Sequence[PlainSpan]) -> bool:
    return any(
        other.job != one.job and other.began_ms < one.ended_ms and one.began_ms < other.ended_ms
        for other in spans
    )


def chain(
    known: Sequence[PlainAttempt],
    broken: Sequence[PlainAttempt],
    done: Sequence[int],
    within_ms: float = HOUR_MS,
) -> list[PlainAttempt]:
    """ "within an hour one after another, and none was completed or cancelled between", the last one first"""
    found: list[PlainAttempt] = []
    for each in reversed(broken):
        is_early = each.ended_ms <= broken[-1].ended_ms - within_ms
        if is_early or not alone(known, each) or each.reason == "timeout":
            break
        if found and any(each.ended_ms <= over <= found[-1].ended_ms for over in done):
            break
        found.append(each)
    return found


def alone(known: Sequence[PlainAttempt], one: PlainAttempt) -> bool:
    """ "no two of different jobs go on at one time" """
    for other in known:
        if other.job != one.job and other.began_ms < one.ended_ms and one.began_ms < other.ended_ms:
            return False
    return True
