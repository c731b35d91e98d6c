"""heddle: trains small neural networks on CPUs, with the same weights for every number of threads.

    run = heddle.train("cnn", "mnist", epochs=3)
    run.evaluate().accuracy
    run.predict(x)

train, Session      train a model; help(heddle.train) lists every option with its bounds
load                opens a run to evaluate, predict, export or certify it
models              the built-in models
Model, from_torch   networks of your own, layer by layer or from PyTorch
summary             layers, parameters, costs, memory
sweep, tune         many runs side by side; the best number of threads
verify, bisect      repeat a run, and find where two runs part
watch               a run's page in a browser while it trains
topo, doctor        the machine, and what makes it slow
build_info          what this build has

heddle.sklearn has estimators. The command `heddle`, or `python -m heddle`, is the program with all of its commands.
docs/python.md shows the rest.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from ._library import (Error, FileError, FormatError, MachineError, NotFiniteError, OutOfMemoryError, ShapeError,
                       StoppedError, UnsupportedError, UsageError, version)
from ._program import build_info
from .data import folds
from .evidence import Bisection, Verification, bisect, verify
from .machine import Finding, Findings, Topology, TuneSetting, Tuning, doctor, topo, tune
from .model import Model, models
from .run import Evaluation, Run, load
from .session import Event, ReduceOnPlateau, Session, train
from ._summary import Layer, Summary, summary
from ._watch import Watch, watch
from ._sweep import SweepGroup, SweepResult, SweepRun, sweep

if TYPE_CHECKING:
    import torch

    from .pytorch import TorchModel

__version__ = version()
__all__ = ["Bisection", "Error", "Evaluation", "Event", "FileError", "Finding", "Findings", "FormatError", "Layer",
           "MachineError", "Model", "NotFiniteError", "OutOfMemoryError", "ReduceOnPlateau", "Run", "Session",
           "ShapeError", "StoppedError", "Summary", "SweepGroup", "SweepResult", "SweepRun", "Topology",
           "TuneSetting", "Tuning", "UnsupportedError", "UsageError", "Verification", "Watch", "bisect", "build_info",
           "doctor", "folds", "from_torch", "load", "models", "summary", "sweep", "topo", "train", "tune", "verify",
           "version", "watch"]


def __dir__() -> list[str]:
    """What completion offers: no modules, and nothing that this file imports for itself."""
    return sorted([*__all__, "__doc__", "__file__", "__version__"])


def from_torch(module: torch.nn.Module, input_shape: Sequence[int], loss: Any = "cross_entropy",
               losses: Any = None) -> TorchModel:
    """A PyTorch module as a model for heddle.train: see heddle.pytorch.from_torch."""
    from .pytorch import from_torch as convert

    return convert(module, input_shape, loss, losses)
