"""`python -m sudare` is the command `sudare`."""

import sys

from sudare._cli import main

if __name__ == "__main__":
    sys.exit(main())
