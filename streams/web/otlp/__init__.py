"""OpenTelemetry's spans and metrics over HTTP, and the events of jobs that are made of them."""
