"""From fetched records to the engine: order by log time, watermarks, backpressure."""
