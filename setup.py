"""Packaging of bhn_tf."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"',
    (ROOT / "bhn_tf" / "version.py").read_text(encoding="utf-8"),
).group(1)

# TensorFlow Probability 0.25 is the newest release and needs tf_keras, the Keras 2 of
# TensorFlow, to be importable beside Keras 3; tf_keras has to match TensorFlow.
TENSORFLOW_RANGE = ">=2.18,<2.22"

TRAINERS = [
    f"tensorflow{TENSORFLOW_RANGE}",
    "matplotlib>=3.8",
    "mlxtend>=0.23",
    "pillow>=10",
    # Counts, and a regression of them to be compared with.
    "statsmodels>=0.14.4",
    "tensorflow-datasets>=4.9.7",
    # Imported by tensorflow-datasets, which does not declare it.
    "importlib_resources>=6",
]

SERVING = ["tensorflow-serving-api>=2.18"]
SCORE = ["pyarrow>=14"]
DEMO = ["flask>=3"]
TUNER = ["keras-tuner>=1.4.7"]
BEAM = ["apache-beam>=2.70", "google-crc32c>=1.5", *SCORE]

setup(
    name="bhn-tf",
    version=VERSION,
    description="Bayesian hypernetworks for Keras: networks that know when they do "
    "not know.",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["bhn_tf", "bhn_tf.*", "trainers", "trainers.*"]),
    package_data={"bhn_tf": ["py.typed", "demo/static/*"]},
    python_requires=">=3.10",
    install_requires=[
        f"tensorflow{TENSORFLOW_RANGE}",
        f"tf_keras{TENSORFLOW_RANGE}",
        "keras>=3.11,<4",
        "tensorflow-probability>=0.25,<0.26",
        "numpy>=1.26",
        "scipy>=1.11",
        "scikit-learn>=1.6",
        "absl-py>=2.0",
    ],
    extras_require={
        "trainers": TRAINERS,
        "gpu": [f"tensorflow[and-cuda]{TENSORFLOW_RANGE}"],
        # Warm-up requests beside an export, and gRPC.
        "serving": SERVING,
        "score": SCORE,
        "beam": BEAM,
        "demo": DEMO,
        "tuner": TUNER,
        "test": [
            *TRAINERS,
            *SERVING,
            *BEAM,
            *DEMO,
            *TUNER,
            "ai-edge-litert>=1.2",
            # Invalid and valid input of every public entry.
            "hypothesis>=6.150",
            # Thresholds and sets are compared with it.
            "mapie>=1.6",
            "mypy>=1.15",
            # Drives a Chromium of the system, where there is one.
            "playwright>=1.40",
            "pytest>=8",
            # From here on it knows `--no-loadscope-reorder`.
            "pytest-xdist>=3.8",
            "ruff>=0.6",
            # What its callbacks write; TensorFlow brings it up to 2.20.
            "tensorboard>=2.18",
        ],
        # Mutation testing and coverage, which tests/README.md gives the commands of.
        "quality": ["cosmic-ray>=8.7", "coverage>=7.10"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
