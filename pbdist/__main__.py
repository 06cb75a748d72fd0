"""``python -m pbdist``."""

import sys

from pbdist.cli import main

sys.exit(main())
