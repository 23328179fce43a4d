"""The command `sudare`, the same as that of the Rust package."""

import sys

from sudare import _native


def main() -> int:
    """Does what the command line says and returns the exit status."""
    return _native.run_command(["sudare", *sys.argv[1:]])
