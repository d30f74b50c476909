"""What the library costs, measured beside what a user would pick instead."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
