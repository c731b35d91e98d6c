"""Installs or packs the folder that `make python-stage` fills, in which it runs; with the library in it for one kind of
machine, else for all."""
import os
import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """For any Python 3, since the library is opened and not compiled against Python's headers."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return pathlib.Path("heddle", "libheddle.so").exists()


setup(name="heddle", version=os.environ["HEDDLE_VERSION"], license="MIT",
      description="Trains small neural networks on CPUs, with the same weights for every number of threads",
      packages=["heddle"], package_data={"heddle": ["libheddle.so", "py.typed"]},
      python_requires=">=3.9", install_requires=["cffi>=1.15", "numpy>=1.22"],
      extras_require={"sklearn": ["scikit-learn>=1.2"], "torch": ["torch>=1.13"]},
      distclass=WithLibrary, cmdclass={"bdist_wheel": Wheel})
