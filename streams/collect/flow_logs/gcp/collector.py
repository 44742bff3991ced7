"""`trainfare collect gcp-flow-logs`: reads files of Google's VPC flow logs."""

from __future__ import annotations

from streams.collect.files.collector import FileCollector
from streams.collect.flow_logs.gcp.entries import GcpFlowEntries
from streams.collect.flow_logs.gcp.options import Options
from streams.collect.flow_logs.reader import FlowLogReader


def open_collector(options: Options) -> FileCollector:
    """The collector."""
    form = GcpFlowEntries(options.sample_ratio)
    return FileCollector("gcp-flow-logs", options, lambda: FlowLogReader(form, options, options.source))
