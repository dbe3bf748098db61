"""What a worker, or a bin, may hold when a message arrives."""

import math


def capacity(epsilon: float, sent: float, weight: float, number: int) -> float:
    """More than the load that a free one of `number` workers has before a message of this weight."""
    share = (1 + epsilon) * (sent + weight) / number
    return max(1, math.ceil(share)) if math.isfinite(share) else share
