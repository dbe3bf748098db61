"""Pages: self-contained files with one common style."""

import datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from keysplit._core import __version__
from keysplit.show.palette import styles
from keysplit.text import format_share


def render(package: str, template: str, **context: Any) -> str:
    """Render a page.

    Args:
        package: the package that holds the template; templates it extends or imports may also be here.
        template: its file name.
        context: the variables of the template, apart from `palette`, `version` and `when`.

    Returns:
        The page, with all text escaped.
    """

    def load(name: str) -> str | None:
        for folder in (package, __package__):
            file = files(folder).joinpath(name)
            if file.is_file():
                return file.read_text(encoding="utf-8")
        return None

    environment = Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["share"] = format_share
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    common = {"palette": Markup(styles()), "version": __version__, "when": when}
    return environment.get_template(template).render(**{**common, **context})
