"""How today's rows differ from the rows that a plan was made from."""

from dataclasses import dataclass, field

import numpy as np

from keysplit.show.shown import Shown
from keysplit.show.view import View
from keysplit.text import format_imbalance, format_share


@dataclass(frozen=True)
class Drift(Shown):
    """How today's rows differ from the rows that a plan was made from, and the effect on the loads.

    Attributes:
        moved: the share of the weight, 0 to 1, that moved to other keys: the total variation distance between
            the two distributions over the keys that are frequent on both days and the buckets of all other
            keys.
        loads: today's weight that each worker is expected to get with the old plan, float64.
        imbalance: the imbalance of `loads`, each relative to its worker's capacity.
        fresh_imbalance: the same for a plan made today with the same grouping.
        new_keys: the keys that only a plan made today places individually, as text, with their share of
            today's weight; the most frequent first.
        gone_keys: the keys that only the old plan places individually, with their share of the weight that
            the old plan was made from; the most frequent first.
        verdict: in words, whether the plan still fits.
    """

    moved: float
    loads: np.ndarray = field(repr=False)
    imbalance: float
    fresh_imbalance: float
    new_keys: dict[str, float]
    gone_keys: dict[str, float]
    verdict: str

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"  {self.moved:.1%} of the weight lies elsewhere; "
            f"imbalance {self.imbalance:.2e}, by a new plan {self.fresh_imbalance:.2e}",
        ]
        for title, keys in (
            ("frequent today, not in the plan", self.new_keys),
            ("frequent in the plan, not today", self.gone_keys),
        ):
            if keys:
                names = ", ".join(f"{key} ({share:.2%})" for key, share in list(keys.items())[:5])
                lines.append(f"  {title}: {names}{', ...' if len(keys) > 5 else ''}")
        return "\n".join(lines)

    def _view(self) -> View:
        keys = [(key, share, "new") for key, share in self.new_keys.items()]
        keys += [(key, share, "gone") for key, share in self.gone_keys.items()]
        return View(
            f"Drift: {format_share(self.moved)} of the weight lies elsewhere",
            f"{self.verdict}\nImbalance is {format_imbalance(self.imbalance)}, by a new plan "
            f"{format_imbalance(self.fresh_imbalance)}.",
            ("frequent key", "share", "today"),
            [(key, format_share(share), what) for key, share, what in keys],
            {"old plan": np.asarray(self.loads, float)},
            "weight",
            [{"key": key, "share": share, "today": what} for key, share, what in keys],
            ("key", "share", "today"),
        )
