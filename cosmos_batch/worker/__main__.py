"""The container's ENTRYPOINT."""

import sys

from cosmos_batch.worker.supervisor import main

sys.exit(main())
