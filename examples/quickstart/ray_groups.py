"""A job of Ray that holds two GPUs in a placement group for some seconds."""

import time

import ray
from ray.util.placement_group import placement_group

ray.init()
group = placement_group([{"GPU": 1}, {"GPU": 1}], strategy="STRICT_PACK")
ray.get(group.ready())
time.sleep(5)
