"""What a soak has shown, see `soaking`: tables in Markdown and a figure."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from keysplit_experiments.harness import figure as figures

QUERIES = ("aggregate", "apply")
ROLES = {
    "driver": "driver, Python",
    "JVM": "driver, JVM",
    "daemon": "daemon of workers",
    "worker": "Python worker",
}


def since_last_kill(found: dict[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the times, in minutes, and values of what may grow in the driver that was not killed."""
    samples = [each for each in found["samples"] if each["driver"] == found["samples"][-1]["driver"]]
    series = dict[str, list[tuple[float, float]]]()
    for each in samples:
        for role, resident in each["memory_mb"].items():
            series.setdefault(f"{ROLES[role]}, MB", []).append((each["at"], float(np.mean(resident))))
        for name, value in each.items():
            if name == "heap_mb":
                series.setdefault("driver, JVM: living objects, MB", []).append((each["at"], value))
            elif "," in name:
                series.setdefault(name.replace(", mb", ", MB"), []).append((each["at"], value))
    for name in QUERIES:
        for batch in found["batches"]:
            if batch["query"] == name and batch["at"] >= samples[0]["at"]:
                series.setdefault(f"{name}, rows of state", []).append((batch["at"], batch["state_rows"]))
                series.setdefault(f"{name}, state in memory, MB", []).append((batch["at"], batch["state_mb"]))
    return {
        name: (np.array([at for at, _ in each]) / 60, np.array([value for _, value in each]))
        for name, each in series.items()
    }


def table(found: dict[str, Any]) -> str:
    """Return the tables in Markdown: what grows or not, then batches and totals."""
    lines = [
        "| since the last kill | first tenth | last tenth | most | per minute | per minute, second half |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, (at, values) in since_last_kill(found).items():
        tenth = (at[-1] - at[0]) / 10
        first, last = values[at <= at[0] + tenth].mean(), values[at >= at[-1] - tenth].mean()
        half = at >= (at[0] + at[-1]) / 2
        slopes = [
            np.polyfit(at[part], values[part], 1)[0] if part.sum() > 1 else 0.0 for part in (at >= 0, half)
        ]
        numbers = [first, last, values.max(), *slopes]
        lines.append(f"| {name} | " + " | ".join(f"{number:.4g}" for number in numbers) + " |")
    lines += [
        "",
        "| query | kills | in mid-batch | batches | p50, s | p99, s | plans | busiest worker | by hash "
        "| events | totals | missing | wrong or doubled |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in found["totals"].items():
        durations = [batch["duration_s"] for batch in found["batches"] if batch["query"] == name]
        p50, p99 = np.percentile(durations, [50, 99])
        within = sum(name in kill["mid-batch"] for kill in found["kills"])
        lines.append(
            f"| {name} | {len(found['kills'])} | {within} | {each['batches']} | {p50:.2f} | {p99:.2f} "
            f"| {each['versions']} | {each['busiest']:.2f} | {each['by hash']:.2f} "
            f"| {each['rows']} | {each['totals']} | {each['missing']} | {each['wrong or doubled']} |"
        )
    return "\n".join(lines)


def draw(found: dict[str, Any], path: Path) -> None:
    """Plot the duration of batches per minute, memory, and rows of state over time, with the kills."""
    figures.need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(figures.SETTINGS):
        figure = Figure(figsize=(8, 8), layout="constrained")
        durations, memory, state = figure.subplots(3, 1, sharex=True)
        for name, color in zip(QUERIES, ("#0072b2", "#d55e00"), strict=True):
            batches = pd.DataFrame([each for each in found["batches"] if each["query"] == name])
            by_minute = batches.groupby(batches["at"] // 60)["duration_s"]
            for part, dash in ((0.5, "-"), (0.99, ":")):
                values = by_minute.quantile(part)
                label = f"{name}, p{part * 100:.0f}"
                durations.plot(values.index + 0.5, values, color=color, linestyle=dash, label=label)
            state.plot(batches["at"] / 60, batches["state_rows"], color=color, label=name)
        samples = found["samples"]
        for role, label in ROLES.items():
            values = [sum(each["memory_mb"].get(role, [])) for each in samples]
            label += "s, all" if role == "worker" else ""
            memory.plot([each["at"] / 60 for each in samples], values, label=label)
        for axes, label in (
            (durations, "batch, s"),
            (memory, "resident memory, MB"),
            (state, "rows of state"),
        ):
            axes.set_ylabel(label)
            axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
            for at, kill in enumerate(found["kills"]):
                text = "driver killed" if at == 0 and axes is durations else None
                axes.axvline(kill["at"] / 60, color="black", linewidth=0.8, linestyle="--", label=text)
            axes.legend(loc="upper right", ncols=2)
        state.set_xlabel("minutes")
    figures.save(figure, path)
