"""Access logs of S3 buckets: requests and bytes, as `storage` events of the jobs that made them."""
