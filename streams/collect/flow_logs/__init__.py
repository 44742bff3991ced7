"""Flow logs of clouds: bytes that went in and out of nodes, as `network` events of the jobs that held them."""
