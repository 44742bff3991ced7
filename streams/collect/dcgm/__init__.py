"""GPU use from dcgm-exporter: its text, whose GPU it was, and samples made of both."""
