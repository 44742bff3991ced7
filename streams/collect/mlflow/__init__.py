"""Runs of MLflow: what its tracking server says of them, the events made of it, and costs written back as metrics."""
