"""Jobs of Ray: what its dashboard says of jobs, groups, actors, tasks and nodes, and the events made of it."""
