"""Decompress event logs in small parts, as far as the bytes are intact.

Databricks writes gzip, Spark the other formats. pyarrow reads zstd. For lz4 and snappy Spark writes the
framings of two Java libraries, which no other library reads: `LZ4BlockOutputStream` of lz4-java and
`SnappyOutputStream` of snappy-java. The code here reads the framing, and pyarrow decompresses the blocks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_PART = 1 << 16
_LZ4_MAGIC = b"LZ4Block"
_LZ4_STORED, _LZ4_PACKED = 0x10, 0x20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_WITH_HEADER = 31  # zlib's window bits for gzip
_MOST = 1 << 28  # per block: more means damage


class DamagedError(ValueError):
    """The bytes end in the middle of a block, or have a different format."""


def plain(file: Any) -> Iterator[bytes]:
    """Return the parts of a file that is not compressed."""
    while part := file.read(_PART):
        yield bytes(part)


def zstd(file: Any) -> Iterator[bytes]:
    """Decompress the frames of zstd, one after another.

    Raises:
        DamagedError: after all that can be read, if the file ends in the middle of a frame.
    """
    import pyarrow as pa

    done = 0
    try:
        stream = pa.CompressedInputStream(file, "zstd")
        while part := stream.read(_PART):
            yield bytes(part)
            done += len(part)
    except OSError as error:
        # The failed read lost what it had decompressed: read byte by byte from there.
        file.seek(0)
        again = pa.CompressedInputStream(file, "zstd")  # the first one would close the file when deleted
        with suppress(OSError):
            while done and (part := again.read(min(done, _PART))):
                done -= len(part)
            while part := again.read(1):
                yield bytes(part)
        raise DamagedError(str(error).splitlines()[0]) from error


def lz4(file: Any) -> Iterator[bytes]:
    """Decompress the blocks of lz4-java.

    A block is the magic, a byte with the method, the compressed and the original length and a checksum, each
    four bytes, little-endian; then the data. A block of length 0 ends a stream; another stream may follow.

    Raises:
        DamagedError: after all that can be read, if the file ends in the middle of a block.
    """
    import pyarrow as pa

    codec = pa.Codec("lz4_raw")
    while head := _take(file, 21, optional=True):
        if head[:8] != _LZ4_MAGIC:
            raise DamagedError("the lz4 block header is missing")
        packed, original = (int.from_bytes(head[at : at + 4], "little") for at in (9, 13))
        data = _take(file, packed)
        method = head[8] & 0xF0
        if method == _LZ4_STORED:
            yield data
        elif method != _LZ4_PACKED:
            raise DamagedError(f"an unknown lz4 method ({head[8]:#x})")
        elif original:
            block = _decompress(codec.decompress, data, original)
            if _fits(codec.decompress, data, original - 1):  # then the end of `block` is random
                raise DamagedError(f"a block is shorter than its {original:,} bytes")
            yield block


def snappy(file: Any) -> Iterator[bytes]:
    """Decompress the blocks of snappy-java.

    The file begins with the magic and two versions, four bytes each. A block is its length in four bytes,
    big-endian, and the data, which begin with the original length. Appended data begin with a new header.

    Raises:
        DamagedError: after all that can be read, if the file ends in the middle of a block.
    """
    import pyarrow as pa

    codec = pa.Codec("snappy")
    first = True
    while head := _take(file, 4, optional=True):
        if head == _SNAPPY_MAGIC[:4]:
            if _take(file, 12)[:4] != _SNAPPY_MAGIC[4:]:
                raise DamagedError("the snappy header is missing")
        elif first:
            raise DamagedError("the snappy header is missing")
        else:
            data = _take(file, int.from_bytes(head, "big"))
            yield _decompress(codec.decompress, data, _length_of(data))
        first = False


def gzip(file: Any) -> Iterator[bytes]:
    """Decompress the members of gzip, one after another.

    Raises:
        DamagedError: after all that can be read, if the file ends in the middle of a member.
    """
    decoder = None
    while part := bytes(file.read(_PART)):
        while part:
            decoder = decoder or zlib.decompressobj(_WITH_HEADER)
            try:
                yield decoder.decompress(part)
            except zlib.error as error:
                raise DamagedError(str(error)) from error
            part = decoder.unused_data
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise DamagedError("the file ends in the middle of a gzip member")


READERS: dict[str, Callable[[Any], Iterator[bytes]]] = {
    "zstd": zstd,
    "zst": zstd,
    "lz4": lz4,
    "snappy": snappy,
    "gz": gzip,
}
"""The decompressors, by the suffix of a file's name."""

_MAGICS = {zstd: b"\x28\xb5\x2f\xfd", lz4: _LZ4_MAGIC[:4], snappy: _SNAPPY_MAGIC[:4], gzip: b"\x1f\x8b"}


def begins_so(read: Callable[[Any], Iterator[bytes]], file: Any) -> bool:
    """Whether a file may have this format; afterwards the file is at its start."""
    head = bytes(file.read(4))
    file.seek(0)
    return read not in _MAGICS or _MAGICS[read].startswith(head) or head.startswith(_MAGICS[read])


def _take(file: Any, size: int, *, optional: bool = False) -> bytes:
    """Read `size` bytes, or none at the end of the file if that is allowed."""
    if size > _MOST:
        raise DamagedError(f"a block of {size:,} bytes")
    data = bytes(file.read(size))
    if len(data) < size and (data or not optional):
        raise DamagedError("the file ends in the middle of a block")
    return data


def _decompress(decompress: Callable[..., bytes], data: bytes, size: int) -> bytes:
    if size > _MOST:
        raise DamagedError(f"a block of {size:,} bytes")
    try:
        return bytes(decompress(data, size, asbytes=True))
    except OSError as error:
        raise DamagedError(str(error).splitlines()[0]) from error


def _fits(decompress: Callable[..., bytes], data: bytes, size: int) -> bool:
    try:
        decompress(data, size, asbytes=True)
    except OSError:
        return False
    return True


def _length_of(data: bytes) -> int:
    """Return the original length of a snappy block: its first bytes, seven bits each, lowest first."""
    length = 0
    for at, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return length
    raise DamagedError("a snappy block must begin with its length")
