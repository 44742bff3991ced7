"""Jobs of Slurm: what squeue and sacct say in JSON, and the events made of it."""
