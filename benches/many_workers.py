"""Every grouping on 10,000 workers beside itself on 100: what a message costs, and what a router holds.

    scripts/with-env python benches/many_workers.py --messages 1e8 --keys 1e7

All groupings route the same stream, chunk by chunk in turn. Times are of the thread's CPU, without drawing.
"""

import argparse
import time

import keysplit as ks

FEW, MANY = 100, 10_000
MOST = 1.5
"""How many times as much a message may cost on many workers as on few."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=float, default=1e8)
    parser.add_argument("--keys", type=float, default=1e7)
    parser.add_argument("--exponents", type=float, nargs="+", default=[1.0, 1.4])
    parser.add_argument("--groupings", nargs="+", choices=list(ks.GROUPINGS), default=list(ks.GROUPINGS))
    arguments = parser.parse_args()
    figures = (f"ns, {FEW} workers", f"ns, {MANY:,} workers", "ratio", "router, MB", "imbalance")
    print(f"| grouping | z | {' | '.join(figures)} | at most {MOST} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    for exponent in arguments.exponents:
        measure(exponent, int(arguments.messages), int(arguments.keys), arguments.groupings)


def measure(exponent: float, messages: int, keys: int, groupings: list[str]) -> None:
    routers = {
        (name, workers): ks.grouping(name, workers=workers).router(source=0)
        for name in groupings
        for workers in (FEW, MANY)
    }
    spent = dict.fromkeys(routers, 0.0)
    for chunk in ks.streams.zipf_chunks(exponent, keys, messages):
        for each, router in routers.items():
            start = time.thread_time()
            router.route(chunk)
            spent[each] += time.thread_time() - start
    for name in groupings:
        few, many = (spent[name, workers] / messages * 1e9 for workers in (FEW, MANY))
        router = routers[name, MANY]
        size, imbalance = len(router.snapshot()) / 1e6, ks.metrics.imbalance(router.loads)
        cells = (
            name,
            exponent,
            f"{few:.1f}",
            f"{many:.1f}",
            f"{many / few:.2f}",
            f"{size:.1f}",
            f"{imbalance:.1e}",
        )
        print(f"| {' | '.join(map(str, cells))} | {'met' if many <= MOST * few else 'missed'} |", flush=True)


if __name__ == "__main__":
    main()
