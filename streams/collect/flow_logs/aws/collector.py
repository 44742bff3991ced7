"""`trainfare collect aws-flow-logs`: reads files of AWS VPC flow logs."""

from __future__ import annotations

from streams.collect.files.collector import FileCollector
from streams.collect.flow_logs.aws.lines import AwsFlowLines
from streams.collect.flow_logs.aws.options import Options
from streams.collect.flow_logs.reader import FlowLogReader


def open_collector(options: Options) -> FileCollector:
    """The collector."""
    form = AwsFlowLines(options.format)
    return FileCollector("aws-flow-logs", options, lambda: FlowLogReader(form, options, options.source))
