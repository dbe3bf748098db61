"""What splitting the hot keys would bring, as far as a plan says."""

from keysplit.plan import BALANCED, Plan
from keysplit.text import format_count

# Where tasks wait for each other, splitting has to finish the job so many times sooner: it works more in all.
_WORTH = 2.0
# Up to so many bytes, as Spark estimates those of a side, shuffling them costs less than a plan and a longer
# query: about half a second of the driver.
_SMALL = 24 << 20


def reason_for_no_plan(workers: int, slots: int | None) -> str | None:
    """Return why no plan can pay, whatever it would say of the keys, None if one may.

    On so few slots `reason_for_plain` takes plain hashing for as good as every plan: the busiest worker has
    all rows at most.

    Args:
        workers: the number of workers; all are equally fast.
        slots: how many tasks run at once; None if nobody knows.
    """
    if slots is None or slots > _WORTH or slots >= workers:
        return None
    return f"splitting would gain too little, whatever the keys are: {slots} tasks run at once"


def reason_for_no_plan_of_a_join(slots: int | None, size: int | None) -> str | None:
    """Return why no plan of a join can pay, None if one may.

    All that a plan can save on few slots is shuffling the hot rows, and these have to be many.

    Args:
        slots: how many tasks run at once; None if nobody knows.
        size: the bytes of the side that is split, as far as Spark knows; None if it does not.
    """
    if slots is None or slots > _WORTH or size is None or size > _SMALL:
        return None
    return (
        f"planning would cost more than it saves: {slots} tasks run at once, and Spark estimates the side "
        f"with the hot keys at {size / 1e6:.1f} MB (up to {_SMALL / 1e6:.0f} MB, Spark's own join is cheaper)"
    )


def reason_for_plain(plan: Plan, slots: int | None) -> str | None:
    """Return why plain hashing is as good as the plan, None if splitting the hot keys pays.

    Args:
        plan: the plan.
        slots: how many tasks run at once; None if nobody knows, which counts as one for each worker.
    """
    if not plan.total:
        return "there are no rows"
    plain = plan.hash_busiest
    if plain <= BALANCED:
        workers = format_count(plan.workers, "worker")
        return (
            f"hashing is balanced: the busiest of {workers} gets {plain:.2f} times the mean "
            f"(up to {BALANCED} counts as balanced)"
        )
    if slots is None or slots >= plan.workers:
        return None
    waves = plan.workers / slots
    if max(plain, waves) <= _WORTH * max(plan.busiest, waves):
        share = plain / plan.workers
        return (
            f"splitting would gain too little: {slots} tasks run at once, and the busiest of "
            f"{plan.workers} workers gets {share:.0%} of the load by hashing"
        )
    return None
