"""Looks at Ray: the GPUs of its nodes and their accelerator types, from the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from schemas.counting import how_many
from schemas.escaping import visible
from streams.accounts.account import Account
from streams.collect.http_source import OutsideApi, token_of
from streams.collect.ray.api import NODES
from streams.collect.ray.options import Options
from streams.collect.ray.records import nodes_of
from streams.init.surroundings import KindCount, Surroundings

#: How often the nodes of a Ray that lists none are asked for, a second apart.
_ASKED_AT_MOST: Final = 15


def look(options: Options, pause: Callable[[float], None] = time.sleep) -> Surroundings:
    """What the dashboard says; `pause` waits for so many seconds.

    A Ray that answers has one node at least, and lists it some seconds after it was started: until then it is asked again.

    Raises:
        SourceUnavailableError: It does not answer.
    """
    api = OutsideApi(
        options.url,
        token=token_of(options.token_file),
        timeout_s=options.timeout_s,
        bytes_at_most=options.max_response_mib * 2**20,
    )
    for left in reversed(range(_ASKED_AT_MOST)):
        account = Account()
        nodes = [node for node in nodes_of(api.get(NODES), account) if not node.end_ms]
        if nodes or not left:
            break
        pause(1.0)
    notes = list[str]()
    counted = KindCount(notes)
    for node in nodes:
        if node.gpu_milli:
            counted.add({"gpu_type": node.gpu_type}, max(node.gpu_milli // 1000, 1))
    notes += (visible(said[0][:200]) for said in account.examples.values() if said)
    kinds = counted.kinds()
    if not kinds:
        notes.append("no node of Ray has GPUs (`ray start --num-gpus`): nothing will be metered")
    given = {"url": options.url, **({"token_file": str(options.token_file)} if options.token_file else {})}
    title = f"Ray at {visible(options.url)}, {how_many(len(nodes), 'node')}"
    return Surroundings("ray", title, kinds, {}, {"ray": given}, tuple(notes))
