"""heddle: trains small neural networks on CPUs, with the same weights for every number of threads.

    run = heddle.train("cnn", "mnist", epochs=3)
    run.evaluate().accuracy
    run.predict(x)

Options are those of the command `heddle train`. docs/python.md shows the rest.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from ._library import (Error, FileError, FormatError, MachineError, NotFiniteError, OutOfMemoryError, ShapeError,
                       StoppedError, UnsupportedError, UsageError, version)
from .data import folds
from .model import Model
from .run import Evaluation, Run, load
from .session import Event, Session, train

if TYPE_CHECKING:
    import torch

    from .pytorch import TorchModel

__version__ = version()
__all__ = ["Error", "Evaluation", "Event", "FileError", "FormatError", "MachineError", "Model", "NotFiniteError",
           "OutOfMemoryError", "Run", "Session", "ShapeError", "StoppedError", "UnsupportedError", "UsageError",
           "folds", "from_torch", "load", "train", "version"]


def from_torch(module: torch.nn.Module, input_shape: Sequence[int], loss: Any = "cross_entropy") -> TorchModel:
    """A PyTorch module as a model for heddle.train: see heddle.pytorch.from_torch."""
    from .pytorch import from_torch as convert

    return convert(module, input_shape, loss)
