"""The jobs of the demo: who runs what on which GPUs, with which utilisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS


@dataclass(frozen=True)
class TrafficProfile:
    """The average traffic, requests and storage of a job."""

    egress_bytes_per_min: int = 0
    path: str = "cross_region"
    reads_per_min: int = 0
    writes_per_min: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True)
class JobSpec:
    """A job as submitted by its owner."""

    job_id: str
    owner: str
    project: str
    pool: str
    gpus: int
    util_ratio: float
    begins_ms: int  # after the start of the demo; negative: it has been running for this long
    runs_ms: int | None = None  # None: until the demo ends
    experiment: str | None = None
    checkpoint_ms: int | None = 30 * MINUTE_MS
    expected_usd_per_hour: str | None = None
    traffic: TrafficProfile | None = None
    outcome: str = "completed"
    reason: str | None = None
    metered: bool = False  # no lifecycle events: known by samples only


def _since(hours: float) -> int:
    return -int(hours * HOUR_MS)


RUNAWAYS: Final = ("llm-7b-pretrain", "distill-1b", "embed-multilingual", "code-sft")
"""Jobs whose owner scales them out by mistake, in turn."""
SPOT: Final = "asr-finetune-spot"
FORGOTTEN: Final = "debug-big-batch"
GROWING: Final = "video-diffusion"
CRASHING: Final = "reward-model"
UNPRICED: Final = "b200-bringup"

CAST: Final[tuple[JobSpec, ...]] = (
    # H100, us-east-1: 30 nodes, three of them free.
    JobSpec("llm-34b-pretrain", "grace", "atlas", "h100", 64, 0.93, _since(9), expected_usd_per_hour="450"),
    JobSpec(
        "llm-7b-pretrain",
        "ada",
        "atlas",
        "h100",
        16,
        0.91,
        _since(7),
        traffic=TrafficProfile(writes_per_min=40, stored_bytes=6 * 2**40),
    ),
    JobSpec(
        "video-diffusion", "edsger", "canvas", "h100", 32, 0.88, _since(8.2), checkpoint_ms=20 * MINUTE_MS
    ),
    JobSpec("vlm-align", "frances", "canvas", "h100", 24, 0.84, _since(5.5)),
    JobSpec("reward-model", "alan", "judge", "h100", 16, 0.79, _since(3.1)),
    JobSpec("code-sft", "barbara", "code-models", "h100", 16, 0.86, _since(4.6)),
    JobSpec(
        "moe-8x-warmup", "ada", "atlas", "h100", 24, 0.81, _since(2.4), runs_ms=2 * HOUR_MS + 50 * MINUTE_MS
    ),
    JobSpec("distill-1b", "alan", "judge", "h100", 8, 0.9, _since(6.3)),
    JobSpec(
        "rlhf-ppo", "barbara", "code-models", "h100", 16, 0.62, _since(3.7), checkpoint_ms=15 * MINUTE_MS
    ),
    JobSpec("llm-70b-eval", "grace", "atlas", "h100", 48, 0.77, _since(0.4), runs_ms=3 * HOUR_MS),
    # A100, us-west-2: ten nodes, one of them free.
    JobSpec("speech-large", "katherine", "echo", "a100", 16, 0.89, _since(8.8)),
    JobSpec(
        "recsys-tower",
        "margaret",
        "feed",
        "a100",
        16,
        0.71,
        _since(6.9),
        traffic=TrafficProfile(reads_per_min=90_000),
    ),
    JobSpec("protein-fold", "donald", "fold", "a100", 16, 0.92, _since(9.4)),
    JobSpec("embed-multilingual", "margaret", "feed", "a100", 8, 0.87, _since(4.1)),
    JobSpec(FORGOTTEN, "donald", "scratch", "a100", 8, 0.01, _since(9.8), checkpoint_ms=None),
    JobSpec(
        "crawl-dedup",
        "radia",
        "data",
        "a100",
        4,
        0.55,
        _since(5.0),
        checkpoint_ms=None,
        traffic=TrafficProfile(
            egress_bytes_per_min=1_800_000_000, reads_per_min=60_000, writes_per_min=2_500, stored_bytes=2**41
        ),
    ),
    JobSpec(
        "eval-nightly",
        "katherine",
        "echo",
        "a100",
        4,
        0.48,
        _since(1.2),
        runs_ms=3 * HOUR_MS,
        traffic=TrafficProfile(egress_bytes_per_min=150_000_000, path="internet"),
    ),
    # Spot, us-west-2: cheap until somebody pays more.
    JobSpec(SPOT, "katherine", "echo", "spot", 8, 0.9, _since(2.9), checkpoint_ms=12 * MINUTE_MS),
    JobSpec("tts-voices-spot", "katherine", "echo", "spot", 8, 0.83, _since(1.6)),
    # L40S, us-east-1: small things, and the sweep's trials beside them.
    JobSpec("ocr-finetune", "edsger", "canvas", "dev", 2, 0.76, _since(1.9)),
    JobSpec("ner-finetune", "margaret", "feed", "dev", 1, 0.68, _since(1.1)),
    JobSpec("ranker-ablation", "margaret", "feed", "dev", 2, 0.72, _since(2.2)),
    JobSpec("tokenizer-bench", "radia", "data", "dev", 1, 0.35, _since(0.8), checkpoint_ms=None),
    JobSpec("segment-anything-lite", "frances", "canvas", "dev", 4, 0.81, _since(3.3)),
    JobSpec("notebook-donald", "donald", "scratch", "dev", 1, 0.3, _since(0.5), metered=True),
)


@dataclass(frozen=True)
class Succession:
    """Jobs of one owner and size, each submitted some minutes after the one before should have ended."""

    names: tuple[str, ...]  # in turn, each with a number
    owner: str
    project: str
    pool: str
    gpus: int
    util_ratio: float
    begins_ms: int  # the first, after the start of the demo
    runs_ms: tuple[int, int]

    def job(self, number: int, begins_ms: int, runs_ms: int, outcome: str) -> JobSpec:
        """One of the jobs."""
        return JobSpec(
            f"{self.names[number % len(self.names)]}-{number + 1:03d}",
            self.owner,
            self.project,
            self.pool,
            self.gpus,
            self.util_ratio,
            begins_ms,
            runs_ms,
            outcome=outcome,
            reason="node_failure" if outcome == "failed" else None,
        )


#: What holds the GPUs of jobs of the cast that end, one after the other without end: as many GPUs as they had.
SUCCESSIONS: Final[tuple[Succession, ...]] = (
    Succession(
        ("llm-70b-sft", "llm-70b-dpo", "llm-70b-longctx"), "grace", "atlas", "h100", 48, 0.82,
        200 * MINUTE_MS, (150 * MINUTE_MS, 420 * MINUTE_MS),
    ),
    Succession(
        ("asr-eval", "tts-eval"), "katherine", "echo", "a100", 4, 0.51,
        112 * MINUTE_MS, (60 * MINUTE_MS, 200 * MINUTE_MS),
    ),
    Succession(
        ("b200-kernels", "b200-nccl"), "radia", "platform", "b200", 8, 0.7,
        105 * MINUTE_MS, (90 * MINUTE_MS, 260 * MINUTE_MS),
    ),
)  # fmt: skip

SWEEP_WIDTH: Final = 16
SWEEP_BEGINS_MS: Final = -25 * MINUTE_MS
SWEEP_TRIAL_MS: Final = (5 * MINUTE_MS, 16 * MINUTE_MS)


def trial(number: int, begins_ms: int, runs_ms: int, outcome: str) -> JobSpec:
    """One trial of the hyper-parameter sweep."""
    return JobSpec(
        f"sweep-lr-{number:03d}",
        "tony",
        "judge",
        "dev",
        1,
        0.74,
        begins_ms,
        runs_ms,
        experiment="reward-lr-sweep",
        checkpoint_ms=None,
        outcome=outcome,
        reason="out_of_memory" if outcome == "failed" else None,
    )


def first_unpriced_job(begins_ms: int) -> JobSpec:
    """The first job on GPUs without a price."""
    return JobSpec(UNPRICED, "radia", "platform", "b200", 8, 0.66, begins_ms, runs_ms=150 * MINUTE_MS)
