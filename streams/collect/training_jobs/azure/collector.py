"""`trainfare collect azure-ml`: reads what the API says of training jobs."""

from __future__ import annotations

from streams.collect.collector import Collector
from streams.collect.training_jobs.azure.document import LISTS, job_of
from streams.collect.training_jobs.azure.options import Options
from streams.collect.training_jobs.reader import TrainingJobReader, collector_of


def open_collector(options: Options) -> Collector:
    """The collector."""
    reader = TrainingJobReader(options, options.source, lambda piece: job_of(piece, options), LISTS)
    return collector_of("azure-ml", options, reader)
