"""Shares of GPUs that pods of one node hold: exact where a third of a GPU is none of its thousandths, and never more than there is.

Events have thousandths. What pods of a node hold is added up exactly, and a pod gets the thousandths by which the whole of that sum grows: three thirds of
a GPU are 333, 333 and 334. A GPU that is full has nothing left for who comes later, whatever its limits say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from streams.collect.kubernetes.node_facts import CLAIMED
from streams.collect.kubernetes.state import ClusterState, PodState

#: The clocks of a node, which says when a pod ended, and of the scheduler, which gives its place to the next, differ by less.
_SKEW_S: Final = 5
_GPU: Final = 1000


def hold(pod: PodState, share: Fraction, gpus: Counter[str]) -> None:
    """Note what a pod that is bound asks for, and how many shares of which GPUs the scheduler says that these are.

    What it holds of it follows with `share_out`.
    """
    pod.share = share.as_integer_ratio()
    pod.asked_milli = int(share)
    if share <= _GPU * len(gpus):  # else they are not all that it has
        shares = gpus.total()
        pod.gpus = {gpu: int(share * count / shares) for gpu, count in sorted(gpus.items())}


def hold_claimed(pod: PodState, share: Fraction) -> None:
    """Note the GPUs of a pod's ResourceClaims."""
    pod.claimed = share.as_integer_ratio()
    pod.devices[CLAIMED] = int(share)
    pod.gpu_milli += int(share)


def share_out(state: ClusterState) -> list[str]:
    """Give the pods that were bound, or whose claims were read, what they hold; return them in the order of their binding."""
    waiting = sorted(state.unshared, key=lambda uid: (state.pod(uid).bound_s, uid))
    for uid in waiting:
        pod = state.pod(uid)
        others = [
            other
            for each in state.on_node[pod.node]
            if each not in state.unshared
            for other in [state.pod(each)]
            if not other.end_s or other.end_s > pod.bound_s + _SKEW_S
        ]
        node = state.nodes.get(pod.node)
        _give(pod, others, 0 if node is None else node.facts.gpu_milli)
        state.unshared.discard(uid)
    return waiting


def _give(pod: PodState, others: Sequence[PodState], node_milli: int) -> None:
    """Give a pod its thousandths; `node_milli`: those of its node, 0 where they are not known."""
    given = sum(each.unclaimed_milli for each in others)
    is_part = bool(pod.gpus) or Fraction(*pod.share) % _GPU != 0
    if is_part:  # whole GPUs are never reduced: that two jobs hold one is said by the meter
        _fit(pod, others, node_milli)
    share = Fraction(*pod.share)
    milli = _rounded(share, sum((each.unclaimed for each in others), share), given)
    if is_part and node_milli:
        milli = min(milli, max(node_milli - given, 0))
    if pod.claimed[0]:
        claimed = Fraction(*pod.claimed)
        total = sum((Fraction(*each.claimed) for each in others), claimed)
        pod.devices[CLAIMED] = _rounded(claimed, total, sum(each.devices.get(CLAIMED, 0) for each in others))
    pod.gpu_milli = milli + pod.devices.get(CLAIMED, 0)


def _fit(pod: PodState, others: Sequence[PodState], node_milli: int) -> None:
    """Reduce a share to what others leave of its GPUs, and of all of the node's."""
    share = Fraction(*pod.share)
    over = Fraction(0)
    for gpu, asked in pod.gpus.items():
        held = sum(each.gpus.get(gpu, 0) for each in others)
        pod.gpus[gpu] = min(asked, max(_GPU - held, 0))
        over += asked - pod.gpus[gpu]
    if node_milli:
        # What parts of GPUs make of a node is rounded down.
        node_milli += node_milli % _GPU > 0
        over = max(over, sum((each.unclaimed for each in others), share) - node_milli)
    pod.share = max(share - over, Fraction(0)).as_integer_ratio()


def _rounded(share: Fraction, total: Fraction, given: int) -> int:
    """The thousandths of a share: by what the whole ones of the total grow, next to the share itself."""
    return min(max(int(total) - given, math.floor(share)), math.ceil(share))
