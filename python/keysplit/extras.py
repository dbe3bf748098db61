"""The error for a missing package, with the command that installs it."""


def missing(what: str, package: str, extra: str) -> str:
    """Return the error that names a missing package with the command that installs it.

    keysplit is not in a registry yet, so the command names a clone: anybody could register the bare name.

    Args:
        what: what needs the package.
        package: the missing package.
        extra: the extra of keysplit that includes the package.
    """
    return f"{what} needs {package}: pip install '.[{extra}]' in a clone of keysplit"
