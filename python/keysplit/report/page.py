"""Pages: one look for all of them, each a file that needs nothing else."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(package: str, template: str, **context: Any) -> str:
    """Render a page.

    Args:
        package: the package that holds the template; what it extends or imports may be here, too.
        template: the name of its file.
        context: what the template shows.

    Returns:
        The page; all text in it is escaped.
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
    return environment.get_template(template).render(**context)
