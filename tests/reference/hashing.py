"""The hash of a key, candidates and random draws, as docs/routing.md defines them."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice

import xxhash

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
EPOCH = datetime.datetime(1970, 1, 1)


def mix(x: int) -> int:
    x &= MASK
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    x ^= x >> 31
    return x


def domain(seed: int, tag: int) -> int:
    return mix(mix(seed + GOLDEN) + tag * GOLDEN)


def hash_key(key: object, seed: int = 0) -> int:
    """The hash of a Python object that stands for a key.

    A NumPy or pandas timestamp carries nanoseconds that `datetime` cannot: give those as a whole number.
    """
    if key is None:
        return domain(seed, 5)
    if isinstance(key, int):  # a bool is the whole number 0 or 1
        return hash_whole(key, seed)
    if isinstance(key, str):
        return xxhash.xxh3_64_intdigest(key.encode(), domain(seed, 3))
    if isinstance(key, bytes):
        return xxhash.xxh3_64_intdigest(key, domain(seed, 4))
    if isinstance(key, Decimal):
        return hash_decimal(key, seed)
    if isinstance(key, datetime.datetime):
        return hash_decimal(Decimal(nanoseconds(key)), seed)
    if isinstance(key, datetime.date):
        return hash_whole((key - EPOCH.date()).days, seed)
    raise TypeError(f"the reference knows no hash for {type(key).__name__}")


def hash_whole(value: int, seed: int) -> int:
    if -(2**63) <= value < 2**63:
        return mix(value & MASK ^ domain(seed, 1))
    if 2**63 <= value < 2**64:
        return mix(value ^ domain(seed, 2))
    raise ValueError(f"{value} does not fit 64 bits")


def hash_decimal(value: Decimal, seed: int) -> int:
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)
    if unscaled == 0:
        return hash_whole(0, seed)
    while unscaled % 10 == 0:
        unscaled //= 10
        scale -= 1
    if scale <= 0 and -(2**63) <= unscaled * 10**-scale < 2**64:
        return hash_whole(unscaled * 10**-scale, seed)
    data = unscaled.to_bytes(32, "little", signed=True) + scale.to_bytes(4, "little", signed=True)
    return xxhash.xxh3_64_intdigest(data, domain(seed, 6))


def nanoseconds(value: datetime.datetime) -> int:
    """Nanoseconds since the epoch; wall-clock ones where the value has no time zone."""
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - EPOCH) // datetime.timedelta(microseconds=1) * 1000


def onto(x: int, workers: int) -> int:
    """Map a number of 32 bits onto the workers."""
    return x * workers >> 32


def halves(x: int, workers: int) -> list[int]:
    return [onto(x >> 32, workers), onto(x & 0xFFFFFFFF, workers)]


def sequence(h: int, workers: int) -> Iterator[int]:
    """F(0), F(1), F(2) ... of the key with hash h, without end."""
    yield from halves(h, workers)
    j = 1
    while True:
        yield from halves(mix(h + j * GOLDEN), workers)
        j += 1


def candidates(h: int, workers: int, count: int, distinct: bool = False) -> list[int]:
    found: list[int] = []
    for worker in sequence(h, workers):
        if len(found) == (min(count, workers) if distinct else count):
            return found
        if not (distinct and worker in found):
            found.append(worker)
    raise AssertionError("the sequence has no end")


def place(h: int, seed: int, tag: int, i: int, size: int) -> int:
    """Candidate i, of `size` places, of the hash that the tag gives the key."""
    places = sequence(mix(h ^ domain(seed, tag)), size)
    return next(islice(places, i, None))


def stream(seed: int, source: int) -> int:
    return mix(domain(seed, 7) + source * GOLDEN)


def draw(seed: int, source: int, position: int) -> int:
    return mix(stream(seed, source) + (position + 1) * GOLDEN)


def first_turn(seed: int, source: int, workers: int) -> int:
    return onto(stream(seed, source) >> 32, workers)
