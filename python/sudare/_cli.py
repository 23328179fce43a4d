"""The command `sudare`, the same as in the Rust package."""

import os
import sys

from sudare import _native

# Wheels contain the page of owners.
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")


def main() -> int:
    """Runs the command line and returns the exit status."""
    # Servers start the processes of jobs with these.
    os.environ["SUDARE_PYTHON"] = sys.executable
    os.environ.setdefault("SUDARE_PAGE", PAGE)
    return _native.run_command(["sudare", *sys.argv[1:]])
