"""Naive models of everything the Rust core does: the executable form of docs/routing.md.

They share no code with the core and are so simple that they are unlikely to be wrong. The model of a grouping
is found by its name: the one class of the file of that name that is a model.
"""

from importlib import import_module

import keysplit as ks

from .model import Model


def _find(name: str) -> type[Model]:
    kind = ks.GROUPINGS[name].__name__
    model: type[Model] = getattr(import_module(f"{__name__}.{name}"), kind)
    assert issubclass(model, Model)
    return model


MODELS: dict[str, type[Model]] = {name: _find(name) for name in ks.GROUPINGS}
