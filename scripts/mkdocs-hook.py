"""Let the documentation find the extension's classes.

Their names are `keysplit.Router` and `keysplit.SpaceSaving`, where users import them from. A tool that reads
the package takes each of the two places for an alias of the other and shows neither.
"""

from keysplit import _core

for kind in (_core.Router, _core.SpaceSaving):
    kind.__module__ = _core.__name__
