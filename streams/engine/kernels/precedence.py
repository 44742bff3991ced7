"""Which alert of a job gives way to another one that tells of the same cost, or of the same standstill."""

from __future__ import annotations

from schemas.durations import BEGINNING_MS
from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import I64, Records, as_flag, as_int64
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.conditions import (
    NOISE_RATIO,
    burn_level,
    extra_rate,
    reaches,
    reaches_ratios,
    without_basis,
)
from streams.engine.kernels.episode import (
    BURN_RULES,
    CEILING,
    DIGEST_LEVEL,
    DRIFT,
    ENDED,
    FAST,
    IDLE_GPUS,
    NO_CHECKPOINT,
    PAGE_LEVEL,
    PRICE_BASIS,
    RECOVERED,
    SLOW_PROGRESS,
    STALLED,
    SUSTAINED,
    TICKET_LEVEL,
    EpisodeArrays,
    RuleLimits,
)

DRIFT_SILENT_MS = 3_600_000
#: So long after an attempt ended with an alert the same burn of a next attempt is known, unless it is so much dearer.
KNOWN_MS = 86_400_000
DEARER_RATIO = 1.5
#: The shorter window of burn_sustained: after it, that window contains only cost since burn_fast cleared.
SUSTAINED_SILENT_MS = 900_000
#: What stands still is seen as such by its samples for a while after its progress went on, and the other way round.
STANDSTILL_SILENT_MS = 600_000
#: After that its work is to be saved at its next usual time.
UNSAVED_SILENT_MS = 3_600_000


@helper
def _tells(burn: int, rule: int, at_ms: int, pages: int, episodes: Records) -> bool:
    """Whether the alert of a burn rule tells somebody, or did lately, no less urgently than one of this rule would."""
    level = PAGE_LEVEL if pages >> rule & 1 else TICKET_LEVEL
    return (
        _fired_lately(burn, at_ms, as_int64(SUSTAINED_SILENT_MS), episodes)
        and episodes[burn]["level"] >= level
    )


@helper
def _fired_lately(rule: int, at_ms: int, after_ms: int, episodes: Records) -> bool:
    """Whether an alert of a rule fires, or cleared less than so long ago."""
    return bool(episodes[rule]["open"] != 0 or at_ms < episodes[rule]["cleared_ms"] + after_ms)


@helper
def yields(rule: int, at_ms: int, pages: int, episodes: Records) -> bool:
    """Whether an alert of another rule tells of the same, or did just now: then this one does not open."""
    if episodes[rule]["open"] != 0:
        return False
    if rule == CEILING:
        for burn in range(BURN_RULES):
            if _tells(burn, as_int64(CEILING), at_ms, pages, episodes):
                return True
    # Either looks back at the time that the other one names.
    after_ms = as_int64(STANDSTILL_SILENT_MS)
    if rule == NO_CHECKPOINT:  # what stood still had nothing to save, and first has to do something worth it
        after_ms = as_int64(UNSAVED_SILENT_MS)
    if rule in (NO_CHECKPOINT, STALLED, SLOW_PROGRESS) and _fired_lately(
        as_int64(IDLE_GPUS), at_ms, after_ms, episodes
    ):
        return True
    if rule == IDLE_GPUS and _fired_lately(as_int64(SLOW_PROGRESS), at_ms, after_ms, episodes):
        return True
    return bool(
        rule in (NO_CHECKPOINT, IDLE_GPUS, SLOW_PROGRESS)
        and _fired_lately(as_int64(STALLED), at_ms, after_ms, episodes)
    )


@helper
def level_of(
    rule: int, at_ms: int, tick: int, job: int, limits: RuleLimits, figures: EpisodeArrays, episodes: Records
) -> int:
    """How urgent a burn is at a tick: no ticket once more if it goes on in a next attempt, of which spot jobs have hundreds."""
    level = burn_level(tick, job, rule, limits, figures)
    if level != TICKET_LEVEL:
        return level
    extra_nano = extra_rate(tick, job, figures)
    since_ms = episodes[rule]["started_ms"] if episodes[rule]["open"] != 0 else at_ms
    for burn in range(BURN_RULES):
        known_nano = DEARER_RATIO * episodes[burn]["known_nano"] * (1.0 - NOISE_RATIO)
        if since_ms < episodes[burn]["again_ms"] and extra_nano < known_nano:
            return as_int64(DIGEST_LEVEL)
    return level


@helper
def remember(rule: int, kind: int, at_ms: int, episodes: Records) -> None:
    """Remember at the end of a burn rule's alert whether the same burn of a next attempt is known."""
    for burn in range(BURN_RULES):
        if kind == RECOVERED:
            episodes[burn]["again_ms"] = BEGINNING_MS
        elif kind == ENDED:
            is_said = burn == rule and episodes[rule]["level"] >= TICKET_LEVEL
            if is_said or episodes[rule]["started_ms"] < episodes[burn]["again_ms"]:
                episodes[burn]["again_ms"] = at_ms + KNOWN_MS


@helper
def _is_explained(
    rule: int,
    times_ms: I64,
    tick: int,
    job: int,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
) -> bool:
    """Whether `price_basis` explains so much of the burn that the rest neither opens nor keeps an alert.

    It does while it fires, and as long as the shorter window remembers that; no ticket hides a burn_fast page.
    """
    profile, short = figures.profile[job], limits.short_window[rule]
    if rule == FAST and not limits.pages[profile] >> PRICE_BASIS & 1:
        is_page = episodes[FAST]["open"] != 0 and episodes[FAST]["level"] == PAGE_LEVEL
        if is_page or burn_level(tick, job, as_int64(FAST), limits, figures) == PAGE_LEVEL:
            return False
    is_named = (
        episodes[PRICE_BASIS]["open"] != 0  # it may clear at this tick
        or times_ms[tick] < episodes[PRICE_BASIS]["cleared_ms"] + WINDOWS_MS[short]
        or (limits.enabled[profile] >> PRICE_BASIS & 1 and figures.facts[tick, job] >> PRICE_BASIS & 1)
    )
    if not is_named:
        return False
    if episodes[rule]["open"] == 0:
        return not reaches_ratios(tick, job, rule, limits, figures, as_flag(False))
    rest_nano = without_basis(tick, job, short, figures)
    return not reaches(rest_nano, figures.expected_nano[tick, job, short], limits.clear_ratio[profile, rule])


@helper
def _is_known_burn(
    at_ms: int, tick: int, job: int, limits: RuleLimits, figures: EpisodeArrays, episodes: Records
) -> bool:
    """Whether the alert of another burn rule, which flaps, tells of a fast burn no less urgently."""
    for burn in (SUSTAINED, DRIFT):
        if (
            episodes[burn]["open"] != 0
            and episodes[burn]["flaps"] != 0
            and episodes[burn]["level"]
            >= level_of(as_int64(FAST), at_ms, tick, job, limits, figures, episodes)
        ):
            return True
    return False


@helper
def is_suppressed(
    rule: int,
    times_ms: I64,
    tick: int,
    job: int,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
) -> bool:
    """Whether a burn rule opens nothing, and what is open of it is over, because another rule tells of that cost."""
    at_ms, pages = times_ms[tick], limits.pages[figures.profile[job]]
    if rule == FAST:
        silent = _is_known_burn(at_ms, tick, job, limits, figures, episodes)
    else:
        silent = episodes[FAST]["open"] != 0
    level = level_of(rule, at_ms, tick, job, limits, figures, episodes) if rule > FAST else PAGE_LEVEL
    if rule > FAST and (pages >> CEILING & 1 or level < PAGE_LEVEL):
        # What the job pays is known already, and windows remember it for a while.
        after_ms = SUSTAINED_SILENT_MS if rule == SUSTAINED else DRIFT_SILENT_MS
        ceiling = episodes[CEILING]
        silent = silent or ceiling["open"] != 0 or at_ms < ceiling["cleared_ms"] + after_ms
    if rule == SUSTAINED:
        # What it would remember was put right.
        silent = silent or at_ms < episodes[FAST]["cleared_ms"] + SUSTAINED_SILENT_MS
        # A second message that is no more urgent would tell of the same cost.
        silent = silent or (episodes[DRIFT]["open"] != 0 and episodes[DRIFT]["level"] >= level)
    if rule == DRIFT:
        last_ms = max(episodes[FAST]["cleared_ms"], episodes[SUSTAINED]["cleared_ms"])
        silent = silent or episodes[SUSTAINED]["open"] != 0 or at_ms < last_ms + DRIFT_SILENT_MS
    return bool(silent or _is_explained(rule, times_ms, tick, job, limits, figures, episodes))
