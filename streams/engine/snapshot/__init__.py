"""What snapshots of a shard are made of: blobs of jobs, the index of archived ones, and which part comes next."""
