"""GPU use of one node from nvidia-smi, where no exporter runs."""
