"""`keysplit profile` and `compare` on a Parquet file of several gigabytes: time and peak memory of each.

    python benches/large_file.py                        # 5 GB
    python benches/large_file.py --gigabytes 0.1 --folder /var/tmp

The file is drawn in chunks (strings by Zipf's law, and a column that is not read), and deleted at the end.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keysplit import streams

EXPONENT = 1.0
KEYS = 1_000_000
SPARE = 1.5  # times the file's size must be free on the disk
COMMANDS = {
    "profile": ["--workers", "64"],
    "compare": ["--workers", "50"],
}


def write(path: Path, size: float, keys: int) -> int:
    """Write rows until the file has the size; plain and uncompressed, so that all of it is read."""
    generator = np.random.Generator(np.random.PCG64(0))
    schema = pa.schema({"user": pa.string(), "amount": pa.float64()})
    rows = 0
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for drawn in streams.zipf_chunks(EXPONENT, keys, 10**12, 1):
            users = pc.binary_join_element_wise(
                "user-of-the-shop-", pc.cast(pa.array(drawn), pa.string()), ""
            )
            writer.write_table(pa.table([users, generator.random(len(drawn))], schema=schema))
            rows += len(drawn)
            if path.stat().st_size >= size:
                return rows
    raise AssertionError("the stream has no end")


def run(command: str, path: Path) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in gigabytes."""
    start = time.perf_counter()
    arguments = [
        sys.executable,
        "-m",
        "keysplit",
        command,
        str(path),
        "--key",
        "user",
        *COMMANDS[command],
    ]
    child = subprocess.Popen(arguments)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} failed with exit code {child.returncode}")
    return time.perf_counter() - start, kilobytes(used) / 1e6


def kilobytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss * (1.024 if sys.platform == "linux" else 1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--folder", type=Path, help="where the temporary file is written")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "large.parquet"
        size = arguments.gigabytes * 1e9
        if shutil.disk_usage(folder).free < SPARE * size:
            raise SystemExit(f"the disk of {folder} must have {SPARE * size / 1e9:.1f} GB free")
        rows = write(path, size, arguments.keys)
        print(f"{rows:,} rows, {path.stat().st_size / 1e9:.2f} GB\n", flush=True)
        for command in COMMANDS:
            seconds, gigabytes = run(command, path)
            print(f"\nkeysplit {command}: {seconds:.1f} s, {gigabytes:.2f} GB at its peak\n", flush=True)


if __name__ == "__main__":
    main()
