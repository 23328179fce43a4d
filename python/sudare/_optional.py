"""Packages that only some features need."""

from __future__ import annotations

from sudare import errors


def missing(package: str | None, extra: str, feature: str, instead: str = "") -> errors.Error:
    """Makes the error of a feature whose package is not installed.

    Parameters
    ----------
    package : str or None
        The package, as pip knows it.
    extra : str
        The extra of this package that installs it.
    feature : str
        The feature, at the start of the message.
    instead : str, optional
        What works without the package.

    Returns
    -------
    sudare.errors.MissingDependencyError
        The error to raise.
    """
    other = f", or {instead}" if instead else ""
    return errors.MissingDependencyError(
        f"{feature} needs {package}: pip install {package}{other}; the extra `{extra}` of this package has all "
        "that it needs (docs/install.md)"
    )
