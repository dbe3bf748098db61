"""The two hashes of a message's key: that of a plan, and that of Kafka's own clients."""

import struct

from keysplit.extras import missing

try:
    from xxhash import xxh64_intdigest
except ImportError as error:
    raise ImportError(missing("keysplit.kafka", "xxhash", "kafka")) from error

# Spark's xxhash64 begins with it.
_SPARK_SEED = 42
_LOW = (1 << 32) - 1


def seed_hash(seed: int) -> int:
    """Return the hash from which those of keys begin, which is that of null, 0..=2^64 - 1.

    Args:
        seed: the seed of a plan's grouping, 0..=2^64 - 1.
    """
    return int(xxh64_intdigest(seed.to_bytes(8, "little"), _SPARK_SEED))


def plan_hash(key: bytes, begin: int) -> int:
    """Return the hash of a key from which a plan starts, 0..=2^64 - 1.

    Args:
        key: the bytes that Spark hashes: 8, the low ones first, of a whole number, UTF-8 of a string.
        begin: the hash of the seed.

    Source:
        docs/plans.md: Spark's `xxhash64` of the seed and the key. It is XXH64, each value being hashed with
        the hash of those before as its seed.
    """
    return int(xxh64_intdigest(key, begin))


def murmur2(key: bytes) -> int:
    """Return the hash by which Kafka's default partitioner sends a key, 0..=2^32 - 1.

    Source:
        Austin Appleby's 32-bit MurmurHash2, with the seed 0x9747B28C that Kafka's clients share.
    """
    words, rest = divmod(len(key), 4)
    hash_ = 0x9747B28C ^ (len(key) & _LOW)
    for word in struct.unpack(f"<{words}I", key[: 4 * words]):
        word = word * 0x5BD1E995 & _LOW
        word = (word ^ word >> 24) * 0x5BD1E995 & _LOW
        hash_ = (hash_ * 0x5BD1E995 & _LOW) ^ word
    if rest:
        hash_ = (hash_ ^ int.from_bytes(key[4 * words :], "little")) * 0x5BD1E995 & _LOW
    hash_ = (hash_ ^ hash_ >> 13) * 0x5BD1E995 & _LOW
    return hash_ ^ hash_ >> 15
