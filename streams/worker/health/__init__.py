"""What a worker reports of itself: consumer lag, liveness, probes of Kafka and the store, counters."""
