"""Answers of each cloud's API that change while jobs run: in files, and printed by a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.training_jobs.azure.collector import open_collector as open_azure
from streams.collect.training_jobs.azure.options import Options as AzureOptions
from streams.collect.training_jobs.sagemaker.collector import open_collector as open_sagemaker
from streams.collect.training_jobs.sagemaker.options import Options as SagemakerOptions
from streams.collect.training_jobs.vertex.collector import open_collector as open_vertex
from streams.collect.training_jobs.vertex.options import Options as VertexOptions
from tests.collect.files_world import FilesWorld

HERE: Final = Path(__file__).parent
FROM_MS: Final = 1_780_316_000_000
CLUSTER_GPUS: Final = {"gpu-cluster": "8xA100"}


def sagemaker_documents() -> list[dict[str, Any]]:
    """Return the descriptions of both jobs."""
    text, found, at = (HERE / "sagemaker.json").read_text(), [], 0
    while at < len(text.rstrip()):
        document, at = json.JSONDecoder().raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found.append(document)
    return found


def looks() -> list[bytes]:
    """Return what describing both jobs prints, from the first transition on to the last."""
    found = []
    documents = sagemaker_documents()
    for count in range(2, 10, 2):
        seen = []
        for document in documents:
            transitions = document["SecondaryStatusTransitions"]
            each = {**document, "SecondaryStatusTransitions": transitions[:count]}
            if count < len(transitions):
                each["TrainingJobStatus"] = "InProgress"
                del each["TrainingEndTime"], each["BillableTimeInSeconds"]
            seen.append(json.dumps(each))
        found.append("\n".join(seen).encode())
    return [*found, (HERE / "sagemaker.json").read_bytes()]


def _sagemaker(files: list[str]) -> Collector:
    return open_sagemaker(SagemakerOptions(files=files))


def _vertex(files: list[str]) -> Collector:
    return open_vertex(VertexOptions(files=files))


def _azure(files: list[str]) -> Collector:
    return open_azure(AzureOptions(files=files, instance_gpus=CLUSTER_GPUS))


def sagemaker_world(directory: Path) -> FilesWorld:
    """One file, written anew."""
    return FilesWorld(
        directory, [("jobs.json", each) for each in looks()], _sagemaker, FROM_MS, _sagemaker_jobs
    )


def _sagemaker_jobs(content: bytes) -> int:
    return content.count(b'"SecondaryStatusTransitions"')


def _one_file(
    directory: Path,
    name: str,
    open_collector: Callable[[list[str]], Collector],
    jobs_of: Callable[[Any], list[Any]],
) -> FilesWorld:
    content = (HERE / name).read_bytes()
    files = [(f"{at}{name}", content[:]) for at in range(3)]
    return FilesWorld(directory, files, open_collector, FROM_MS, lambda each: len(jobs_of(json.loads(each))))


vertex_world: Final = partial(
    _one_file, name="vertex.json", open_collector=_vertex, jobs_of=lambda found: found
)
azure_world: Final = partial(
    _one_file, name="azure.json", open_collector=_azure, jobs_of=lambda found: found["value"]
)


class CommandWorld:
    """A command that prints what SageMaker says of both jobs."""

    def __init__(self, directory: Path) -> None:
        self._answer = directory / "answer.json"
        self._looks = looks()
        self._is_away = False
        self._state = 0
        self.states = len(self._looks)

    def collector(self) -> Collector:
        print_it = "import sys; sys.stdout.write(open(sys.argv[1]).read())"
        return open_sagemaker(
            SagemakerOptions(command=[sys.executable, "-I", "-S", "-c", print_it, str(self._answer)])
        )

    def turn(self, state: int) -> int:
        self._state = state
        if not self._is_away:
            self._answer.write_bytes(self._looks[state])
        return FROM_MS + state * 60_000

    def entries(self, state: int) -> int:
        return _sagemaker_jobs(self._looks[state])

    def go_away(self) -> None:
        self._is_away = True
        self._answer.unlink(missing_ok=True)

    def come_back(self) -> None:
        self._is_away = False
        self.turn(self._state)

    def close(self) -> None:
        pass
