"""Jobs of a CI system that begin and end, one after the other; the server tells of them by its API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.github.collector import open_collector as open_github
from streams.collect.github.options import Options as GithubOptions
from streams.collect.gitlab.collector import open_collector as open_gitlab
from streams.collect.gitlab.options import Options as GitlabOptions
from tests.collect.ci.server import TOKEN, CiServer

T0_MS: Final = 1_780_308_000_000  # 2026-06-01 10:00:00
MINUTE_MS: Final = 60_000
RUNNER_GPUS: Final = "gpu-tools=0, gpu-h100=8xH100, eval=2"


def text(time_ms: int | None, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str | None:
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)


def github_run(
    number: int, attempts: list[dict[str, Any]], created_ms: int, updated_ms: int
) -> dict[str, Any]:
    return {
        "id": number, "name": "train", "created_at": text(created_ms), "updated_at": text(updated_ms),
        "actor": {"login": "ada"}, "triggering_actor": {"login": "bob"}, "run_attempt": 1, "jobs": attempts,
    }  # fmt: skip


def github_job(number: int, run: int, status: str, created_ms: int, **others: Any) -> dict[str, Any]:
    """A job of the API: that of a webhook, without what is around it."""
    started, completed = status != "queued", status == "completed"
    return {
        "id": number, "run_id": run, "run_attempt": 1, "workflow_name": "train", "head_branch": "main", "status": status,
        "conclusion": "success" if completed else None, "created_at": text(created_ms),
        "started_at": text(created_ms + MINUTE_MS if started else created_ms),
        "completed_at": text(created_ms + 5 * MINUTE_MS if completed else None),
        "name": f"train ({number})", "labels": ["self-hosted", "gpu-h100"], "steps": [],
        "runner_name": "gpu-01" if started else None, **others,
    }  # fmt: skip


def gitlab_job(number: int, status: str, created_ms: int, **others: Any) -> dict[str, Any]:
    form = "%Y-%m-%dT%H:%M:%S.123Z"
    ended = status in ("success", "failed", "canceled")
    return {
        "id": number, "name": "train", "stage": "train", "ref": "main", "status": status, "failure_reason": None,
        "created_at": text(created_ms, form), "tag_list": ["linux", "gpu-h100"],
        "started_at": text(created_ms + MINUTE_MS if ended or status == "running" else None, form),
        "finished_at": text(created_ms + 5 * MINUTE_MS if ended else None, form),
        "pipeline": {"id": 2366, "project_id": 380}, "user": {"id": 3, "name": "Ada", "username": "ada"},
        "runner": {"id": 380, "description": "gpu-01"}, **others,
    }  # fmt: skip


class CiWorld:
    """Eight jobs, a minute and a half apart; every state is a minute later."""

    states = 24

    def __init__(self, directory: Path, system: str = "github") -> None:
        self._token = directory / "token"
        self._token.write_text(TOKEN)
        self._system = system
        self.server = CiServer()
        self.server.page_size = 3
        self.turn(0)

    def collector(self) -> Collector:
        given: dict[str, Any] = {
            "url": self.server.address, "token_file": self._token, "runner_gpus": RUNNER_GPUS, "interval_s": 1,
        }  # fmt: skip
        if self._system == "github":
            return open_github(GithubOptions.model_validate({**given, "repositories": ["acme/vision"]}))
        return open_gitlab(GitlabOptions.model_validate({**given, "projects": ["acme/ml/vision"]}))

    def turn(self, state: int) -> int:
        now_ms = T0_MS + state * MINUTE_MS
        self.server.runs, self.server.jobs = [], []
        for number in range(1, 9):
            created_ms = T0_MS + number * 90_000
            if created_ms > now_ms:
                continue
            age_ms = now_ms - created_ms
            is_over, is_begun = age_ms >= 5 * MINUTE_MS, age_ms >= MINUTE_MS
            updated_ms = created_ms + (5 * MINUTE_MS if is_over else MINUTE_MS if is_begun else 0)
            status = "completed" if is_over else "in_progress" if is_begun else "queued"
            labels = ["ubuntu-latest"] if number == 4 else ["gpu-h100"]
            job = github_job(number, 70 + number, status, created_ms, labels=labels)
            self.server.runs.append(github_run(70 + number, [job], created_ms, updated_ms))
            status = "success" if is_over else "running" if is_begun else "pending"
            # The third job is the second one, tried again.
            name = f"train {2 if number == 3 else number}"
            self.server.jobs.append(gitlab_job(number, status, created_ms, name=name, tag_list=labels))
        return now_ms

    def entries(self, state: int) -> int:
        """Count the jobs whose minute has come."""
        return sum(number * 90_000 <= state * MINUTE_MS for number in range(1, 9))

    def go_away(self) -> None:
        self.server.is_away = True

    def come_back(self) -> None:
        self.server.is_away = False

    def close(self) -> None:
        self.server.close()
