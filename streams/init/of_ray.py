"""Looks at Ray: the GPUs of its nodes and their accelerator types, from the dashboard."""

from __future__ import annotations

from schemas.escaping import visible
from streams.accounts.account import Account
from streams.collect.http_source import OutsideApi, token_of
from streams.collect.ray.api import NODES
from streams.collect.ray.options import Options
from streams.collect.ray.records import nodes_of
from streams.init.surroundings import KindCount, Surroundings


def look(options: Options) -> Surroundings:
    """What the dashboard says.

    Raises:
        SourceUnavailableError: It does not answer.
    """
    api = OutsideApi(
        options.url,
        token=token_of(options.token_file),
        timeout_s=options.timeout_s,
        bytes_at_most=options.max_response_mib * 2**20,
    )
    account, notes = Account(), list[str]()
    counted = KindCount(notes)
    nodes = [node for node in nodes_of(api.get(NODES), account) if not node.end_ms]
    for node in nodes:
        if node.gpu_milli:
            counted.add({"gpu_type": node.gpu_type}, max(node.gpu_milli // 1000, 1))
    notes += (visible(said[0][:200]) for said in account.examples.values() if said)
    kinds = counted.kinds()
    if not kinds:
        notes.append("no node of Ray has GPUs (`ray start --num-gpus`): nothing will be metered")
    given = {"url": options.url, **({"token_file": str(options.token_file)} if options.token_file else {})}
    title = f"Ray at {visible(options.url)}, {len(nodes)} nodes"
    return Surroundings("ray", title, kinds, {}, {"ray": given}, tuple(notes))
