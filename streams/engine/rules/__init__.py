"""Rules about one job whose condition plain Python derives from the job's state: when it holds, as far as is known."""
