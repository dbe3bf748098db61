"""One colour per grouping, the same in every report, notebook and plot; for light and dark themes."""

COLOURS: dict[str, tuple[str, str]] = {
    "shuffle": ("#924a88", "#e59ad9"),
    "key": ("#c2571a", "#f08c4a"),
    "partial_key": ("#5d5d00", "#a3a543"),
    "power_of_two": ("#1c6dac", "#75beff"),
    "ring": ("#913532", "#df7f78"),
    "bounded_ring": ("#007e53", "#66cfa1"),
    "power_of_random": ("#644492", "#aa8cde"),
    "round_robin": ("#905d00", "#e2ad58"),
    "d_choices": ("#006783", "#19b1cd"),
    "w_choices": ("#9d4670", "#f296bf"),
    "consistent": ("#406500", "#85ad5a"),
    "fish": ("#4964b0", "#96b4ff"),
    "flexd": ("#9c1f4d", "#ff8fa6"),
    "dynamic_key": ("#3f6f5f", "#8fc7b3"),
    "distribution_aware": ("#763d83", "#bf85cd"),
    "pstream": ("#7d6800", "#ccb856"),
    "dalton": ("#35538a", "#8aa3d9"),
    "cut_to_fit": ("#0f7b76", "#3fc1b8"),
}
"""The colour of each grouping in the light and the dark theme, in the order of the registry."""


def style_of(name: str) -> str:
    """Return the CSS class for the colour of a grouping, or of any other line."""
    return f"of-{name.replace(' ', '-')}"


def styles() -> str:
    """Return the CSS classes of all groupings, each of which sets `--colour`."""
    light = "".join(f".{style_of(name)}{{--colour:{on_light}}}" for name, (on_light, _) in COLOURS.items())
    dark = "".join(f".{style_of(name)}{{--colour:{on_dark}}}" for name, (_, on_dark) in COLOURS.items())
    return f"{light}@media (prefers-color-scheme: dark){{{dark}}}"
