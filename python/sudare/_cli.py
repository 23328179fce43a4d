"""The command `sudare`, the same as that of the Rust package."""

import os
import sys

from sudare import _native

# The page of owners, which wheels have.
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")


def main() -> int:
    """Does what the command line says and returns the exit status."""
    # How servers start the processes of jobs.
    os.environ["SUDARE_PYTHON"] = sys.executable
    os.environ.setdefault("SUDARE_PAGE", PAGE)
    return _native.run_command(["sudare", *sys.argv[1:]])
