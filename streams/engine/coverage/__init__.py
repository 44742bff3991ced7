"""What GPUs and amounts have been seen: coverage by seconds, and ids. Must not price anything."""
