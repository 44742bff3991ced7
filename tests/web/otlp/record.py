"""Records what OpenTelemetry's own exporter sends: `python tests/web/otlp/record.py FOLDER`, run by a Python with the packages
opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http (in an environment of its own). Standard library besides.

It writes the bodies as traces.bin and metrics.bin; times are made up, ids are not.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

#: 100 s before the log time of servers in these tests
T0_NANO = 1_780_307_900_000_000_000
SECOND_NANO = 10**9


def main(folder: Path) -> None:
    """Export a job, one that failed, a span that is none, and metrics."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.sdk.metrics import MeterProvider  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.sdk.resources import Resource  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # type: ignore[import-not-found]  # not in the lock
    from opentelemetry.trace import Status, StatusCode  # type: ignore[import-not-found]  # not in the lock

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            (folder / f"{self.path.rpartition('/')[2]}.bin").write_bytes(body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    resource = Resource(
        {"service.name": "training", "cloud.region": "us-east-1", "trainfare.job.team": "vision"}
    )
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address}/v1/traces")))
    tracer = traces.get_tracer("train")
    span = tracer.start_span(
        "train",
        start_time=T0_NANO,
        attributes={
            "trainfare.job.id": "run-7",
            "trainfare.job.gpus": 8,
            "trainfare.job.gpu_type": "H100",
            "trainfare.job.owner": "ada",
            "password": "hunter2",
        },
    )
    span.add_event("trainfare.checkpoint", timestamp=T0_NANO + 30 * SECOND_NANO)
    span.add_event("exception", {"message": "hunter2"}, timestamp=T0_NANO + 31 * SECOND_NANO)
    span.set_attributes({"trainfare.quality.loss": 0.25, "trainfare.progress.step": 1000})
    span.end(T0_NANO + 60 * SECOND_NANO)
    failed = tracer.start_span("train", start_time=T0_NANO, attributes={"trainfare.job.id": "run-8"})
    failed.set_attributes(
        {"trainfare.job.attempt": 2, "trainfare.job.gpus": 0.5, "trainfare.job.reason": "out_of_memory"}
    )
    failed.set_status(Status(StatusCode.ERROR, "hunter2"))
    failed.end(T0_NANO + 45 * SECOND_NANO)
    begun = {"trainfare.job.id": "run-9", "trainfare.job.event": "started", "trainfare.job.gpus": 1}
    tracer.start_span("begin", start_time=T0_NANO, attributes=begun).end(T0_NANO + SECOND_NANO // 2)
    tracer.start_span("other", start_time=T0_NANO).end(T0_NANO + SECOND_NANO)
    traces.shutdown()
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{address}/v1/metrics"), 3_600_000)
    metrics = MeterProvider([reader], resource=resource)
    meter = metrics.get_meter("train")
    meter.create_gauge("trainfare.quality.loss").set(0.5, {"trainfare.job.id": "run-7"})
    meter.create_counter("trainfare.progress.tokens").add(4096, {"trainfare.job.id": "run-7"})
    meter.create_gauge("trainfare.quality.loss").set(
        0.75, {"trainfare.job.id": "run-8", "trainfare.job.attempt": 2}
    )
    meter.create_gauge("temperature").set(40.0, {"trainfare.job.id": "run-7"})
    meter.create_histogram("trainfare.quality.time").record(1.0, {"trainfare.job.id": "run-7"})
    metrics.shutdown()
    server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
