"""Installs or packs the folder that `make python-stage` fills, in which it runs: the package alone, for all machines;
or with the library and the program in it, for one kind."""
import os
import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = object  # what installs without a wheel needs none

WHOLE = pathlib.Path("heddle", "bin", "heddle").exists()


class Wheel(bdist_wheel):
    """For any Python 3, since the library is opened and not compiled against Python's headers."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Contents(Distribution):
    def has_ext_modules(self):
        return WHOLE


def version():
    return os.environ.get("HEDDLE_VERSION") or pathlib.Path("version").read_text(encoding="utf-8").strip()


setup(name="heddle", version=version(), license="MIT",
      description="Trains small neural networks on CPUs, with the same weights for every number of threads",
      packages=["heddle"], package_data={"heddle": ["*.so.*", "bin/heddle", "py.typed", "*.pyi"]},
      scripts=["scripts/heddle"] if WHOLE else [],
      python_requires=">=3.9", install_requires=["cffi>=1.15", "numpy>=1.22"],
      extras_require={"sklearn": ["scikit-learn>=1.2"], "torch": ["torch>=1.13"]},
      distclass=Contents, cmdclass={} if bdist_wheel is object else {"bdist_wheel": Wheel})
