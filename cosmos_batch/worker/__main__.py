"""The entry point of the worker's container: `python -m cosmos_batch.worker` starts the outer process."""

import sys

from cosmos_batch.worker.supervisor import main

sys.exit(main())
