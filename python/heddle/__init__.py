"""heddle: trains small neural networks on CPUs, with the same weights for every number of threads.

    run = heddle.train("cnn", "mnist", epochs=3)
    run.evaluate().accuracy
    run.predict(x)

Options are those of the command `heddle train`. docs/python.md shows the rest.
"""
from ._library import (Error, FileError, FormatError, InterruptedError, NotFiniteError, OutOfMemoryError, ShapeError,
                       SystemError, UnsupportedError, UsageError, version)
from .model import Model
from .run import Evaluation, Run, load
from .session import Event, Session, train

__version__ = version()
__all__ = ["Error", "Evaluation", "Event", "FileError", "FormatError", "InterruptedError", "Model", "NotFiniteError",
           "OutOfMemoryError", "Run", "Session", "ShapeError", "SystemError", "UnsupportedError", "UsageError",
           "from_torch", "load", "train", "version"]


def from_torch(module, input_shape, loss="cross_entropy"):
    """A PyTorch module as a model for heddle.train: see heddle.pytorch.from_torch."""
    from .pytorch import from_torch as convert

    return convert(module, input_shape, loss)
