"""`trainfare collect azure-flow-logs`: reads files of Azure's flow logs."""

from __future__ import annotations

from streams.collect.files.collector import FileCollector
from streams.collect.flow_logs.azure.options import Options
from streams.collect.flow_logs.azure.records import AzureFlowRecords
from streams.collect.flow_logs.reader import FlowLogReader


def open_collector(options: Options) -> FileCollector:
    """The collector."""
    form = AzureFlowRecords()
    return FileCollector("azure-flow-logs", options, lambda: FlowLogReader(form, options, options.source))
