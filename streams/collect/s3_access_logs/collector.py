"""`trainfare collect s3-access-logs`: reads files of S3 server access logs."""

from __future__ import annotations

from streams.collect.files.collector import FileCollector
from streams.collect.s3_access_logs.options import Options
from streams.collect.s3_access_logs.reader import S3LogReader


def open_collector(options: Options) -> FileCollector:
    """The collector."""
    return FileCollector("s3-access-logs", options, lambda: S3LogReader(options))
