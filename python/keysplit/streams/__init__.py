"""Streams of keys: drawn at random, and read from files."""

from keysplit.streams.drawn import (
    zipf,
    zipf_chunks,
    zipf_drifting,
    zipf_evolving,
    zipf_exponent,
    zipf_hot_key,
)
from keysplit.streams.files import UnknownColumnError, UnreadableError, chunks, length, read

__all__ = [
    "UnknownColumnError",
    "UnreadableError",
    "chunks",
    "length",
    "read",
    "zipf",
    "zipf_chunks",
    "zipf_drifting",
    "zipf_evolving",
    "zipf_exponent",
    "zipf_hot_key",
]
