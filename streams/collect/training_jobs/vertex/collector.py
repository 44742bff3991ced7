"""`trainfare collect vertex-ai`: reads what the API says of training jobs."""

from __future__ import annotations

from streams.collect.collector import Collector
from streams.collect.training_jobs.reader import TrainingJobReader, collector_of
from streams.collect.training_jobs.vertex.document import LISTS, job_of
from streams.collect.training_jobs.vertex.options import Options


def open_collector(options: Options) -> Collector:
    """The collector."""
    reader = TrainingJobReader(options, options.source, lambda piece: job_of(piece, options), LISTS)
    return collector_of("vertex-ai", options, reader)
