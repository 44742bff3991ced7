"""`trainfare collect sagemaker`: reads what the API says of training jobs."""

from __future__ import annotations

from streams.collect.collector import Collector
from streams.collect.training_jobs.reader import TrainingJobReader, collector_of
from streams.collect.training_jobs.sagemaker.document import LISTS, job_of
from streams.collect.training_jobs.sagemaker.options import Options


def open_collector(options: Options) -> Collector:
    """The collector."""
    reader = TrainingJobReader(options, options.source, lambda piece: job_of(piece, options), LISTS)
    return collector_of("sagemaker", options, reader)
