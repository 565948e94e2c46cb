"""`python -m cosmos_batch.cli`."""

import sys

from cosmos_batch.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
