"""Stories of jobs that cost more than they should, each as a small log; examples/stories has them as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from schemas.durations import MINUTE_MS

BEGIN_MS: Final = 1_780_300_800_000  # 2026-06-01 08:00:00 UTC
_GB: Final = 10**9

_PRICES: Final[Mapping[str, Mapping[str, str]]] = {
    "h100-od": {
        "component": "gpu",
        "usd": "2.49",
        "per": "gpu_hour",
        "gpu_type": "H100",
        "purchase": "on_demand",
    },
    "h100-spot": {
        "component": "gpu",
        "usd": "1.12",
        "per": "gpu_hour",
        "gpu_type": "H100",
        "purchase": "spot",
    },
    "a100-od": {
        "component": "gpu",
        "usd": "1.29",
        "per": "gpu_hour",
        "gpu_type": "A100",
        "purchase": "on_demand",
    },
    "cross-region": {"component": "network", "usd": "0.02", "per": "gb", "path": "cross_region"},
}


class Story:
    """Lines of one log, in the order of time; instants are minutes after `BEGIN_MS`."""

    def __init__(self, *prices: str) -> None:
        self._lines: list[tuple[float, bytes]] = []
        for sku in prices:
            self.say("prices", 0, sku=sku, effective_ms=BEGIN_MS, **_PRICES[sku])

    def say(self, topic: str, minute: float, **value: Any) -> None:
        """Add an event."""
        time_ms = BEGIN_MS + round(minute * MINUTE_MS)
        said = {"id": f"{topic}-{len(self._lines)}", "source": "story", "time_ms": time_ms, **value}
        self._lines.append((minute, orjson.dumps({"topic": topic, "value": said}) + b"\n"))

    def job(self, minute: float, job_id: str, kind: str, **value: Any) -> None:
        """Add a lifecycle event."""
        self.say("jobs", minute, job_id=job_id, type=kind, **value)

    def content(self) -> bytes:
        """The log."""
        return b"".join(line for _, line in sorted(self._lines, key=lambda line: line[0]))


def retry_loop() -> Story:
    """A fine-tuning job runs out of memory at the same step, and its launcher starts it again each time."""
    story = Story("h100-od")
    about = {
        "owner": "grace",
        "team": "alignment",
        "gpu_type": "H100",
        "purchase": "on_demand",
        "region": "us-east-1",
    }
    for attempt in range(1, 13):
        minute = (attempt - 1) * 8.0
        story.job(minute, "llama-sft", "allocated", attempt=attempt, gpu_count=16, **about)
        story.job(minute + 1.5, "llama-sft", "started", attempt=attempt)
        story.job(minute + 7, "llama-sft", "failed", attempt=attempt, reason="out_of_memory")
    story.job(97, "llama-sft", "cancelled", attempt=12)
    story.job(240, "other", "queued", owner="ada")
    return story


def cross_region() -> Story:
    """A training job's data set has moved, and each epoch reads it from another region."""
    story = Story("a100-od", "cross-region")
    about = {
        "owner": "ada",
        "team": "vision",
        "gpu_type": "A100",
        "purchase": "on_demand",
        "region": "us-east-1",
    }
    story.job(0, "vit-pretrain", "started", gpu_count=8, **about)
    way = {"path": "cross_region", "direction": "ingress", "region": "us-west-2", "dst_region": "us-east-1"}
    for minute in range(91, 271):
        story.say("network", minute, job_id="vit-pretrain", interval_ms=MINUTE_MS, bytes=16 * _GB, **way)
    story.job(420, "vit-pretrain", "completed")
    return story


def spot_fallback() -> Story:
    """A spot job is preempted, and the autoscaler finds room on demand only."""
    story = Story("h100-spot", "h100-od")
    about = {"owner": "lin", "team": "diffusion", "gpu_type": "H100", "region": "us-east-1"}
    story.job(0, "diffusion-xl", "started", gpu_count=8, purchase="spot", **about)
    story.job(132, "diffusion-xl", "preempted", reason="spot_reclaim")
    story.job(137, "diffusion-xl", "allocated", attempt=2, gpu_count=8, purchase="on_demand")
    story.job(139, "diffusion-xl", "started", attempt=2)
    story.job(480, "diffusion-xl", "completed", attempt=2)
    return story


def idle_gpus() -> Story:
    """A notebook holds four GPUs after its process has ended, and nobody closes it."""
    story = Story("a100-od")
    about = {
        "owner": "tom",
        "team": "analytics",
        "gpu_type": "A100",
        "purchase": "on_demand",
        "region": "us-east-1",
    }
    story.job(0, "notebook-7", "started", gpu_count=4, **about)
    gpus = ["0", "1", "2", "3"]
    for minute in range(1, 241):
        ratio = 0.6 if minute <= 60 else 0.0
        story.say(
            "gpu",
            minute,
            job_id="notebook-7",
            node="n7",
            interval_ms=MINUTE_MS,
            gpus=gpus,
            util_ratio=[ratio] * 4,
        )
    story.job(240.5, "notebook-7", "cancelled")
    story.job(300, "other", "queued", owner="ada")
    return story


def oversized() -> Story:
    """A test of a new data loader is started with the launcher's default of 64 GPUs, where such tests take one or two."""
    story = Story("h100-od")
    about = {"team": "vision", "gpu_type": "H100", "purchase": "on_demand", "region": "us-east-1"}
    for place in range(12):
        minute = place * 10.0
        story.job(minute, f"test-{place}", "started", gpu_count=1 + place % 2, owner="ada", **about)
        story.job(minute + 25, f"test-{place}", "completed")
    story.job(185, "test-12", "started", gpu_count=64, owner="lin", **about)
    story.job(360, "test-12", "completed")
    story.job(420, "other", "queued", owner="ada")
    return story


def team_takes_cluster() -> Story:
    """One team starts trial after trial until it has most of the cluster, and what it may spend in a day is gone by noon."""
    story = Story("h100-od")
    limit = {"thresholds": {"share_ratio": 0.6}, "comment": "the cluster is shared"}
    story.say("controls", 0, kind="rule", name="nlp-share", rule="team_burn", team="nlp", **limit)
    story.say(
        "controls", 0, kind="budget", name="nlp-day", team="nlp", usd="1000", per="day", contact="grace"
    )
    about = {"gpu_type": "H100", "purchase": "on_demand", "region": "us-east-1"}
    story.job(0, "detector", "started", gpu_count=32, owner="ada", team="vision", **about)
    for place, minute in enumerate((0, 40, 60, 75, 80, 90)):
        gpus = (8, 16, 16, 32, 32, 64)[place]
        story.job(minute, f"sweep-{place}", "started", gpu_count=gpus, owner="kim", team="nlp", **about)
    for place in range(1, 6):
        story.job(240, f"sweep-{place}", "cancelled")
    story.job(480, "sweep-0", "completed")
    story.job(480, "detector", "completed")
    return story


STORIES: Final[Mapping[str, Callable[[], Story]]] = {
    "retry-loop": retry_loop,
    "cross-region": cross_region,
    "spot-fallback": spot_fallback,
    "idle-gpus": idle_gpus,
    "oversized": oversized,
    "team-takes-cluster": team_takes_cluster,
}
