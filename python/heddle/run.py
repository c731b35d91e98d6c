"""A run: a folder with its checkpoints, and what can be done with them."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import tempfile
import threading
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np

from . import _arrays
from . import _losses
from . import data as _data
from ._library import Config, Context, ShapeError, UnsupportedError, UsageError, ffi, lib, record_of, text
from ._options import check_names, takes_options


@dataclass(frozen=True)
class Evaluation:
    """Results on a test set. Numbers that do not apply to the model's loss are NaN, arrays empty."""

    samples: int
    skipped: int
    loss: float
    accuracy: float
    mean_absolute_error: float
    f1: float
    auc: float
    r2: float
    root_mean_square_error: float
    f1_micro: float
    auc_micro: float
    class_samples: np.ndarray  # (classes)
    class_right: np.ndarray  # (classes)
    confusion: np.ndarray  # (classes, classes), row: label, column: guess
    class_names: list[str]  # of the data that the run was trained on; "" for a class without one
    iou: float  # where each pixel has a class: the mean over classes; the counts and scores above are of pixels then
    class_iou: np.ndarray  # (classes), NaN for one that is nowhere
    outputs: list[dict[str, float]]  # the scores of each output that has targets of its own
    heads: dict[str, dict[str, Any]]  # of a model with several losses: loss_name, loss, and scores of each head
    part: str  # which samples: "test" set, "all", or "changed": the test set of data that are not as in training


_EVALUATION_NUMBERS = ("samples", "skipped", "loss", "accuracy", "mean_absolute_error", "f1", "auc", "r2",
                       "root_mean_square_error", "f1_micro", "auc_micro", "iou")


_PARTS = {lib.HD_EVALUATED_ALL: "all", lib.HD_EVALUATED_CHANGED: "changed"}

_OUTPUT_NUMBERS = ("positives", "f1", "auc", "r2", "mean_absolute_error", "root_mean_square_error")


# In memory a folder takes less time than some predictions; a large one is left to the disk.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_SMALL = 1 << 20

_RECORDS = ("run.json", "metrics.jsonl", "history.jsonl", "losses.bin", "divisors.bin")

# Those of `heddle eval`.
_EVALUATION_OPTIONS = ("data_dir", "label", "weights", "header", "missing", "categories", "normalize", "on_error",
                       "exif", "allow_empty", "tta", "threads", "device")


def _texts(run: Any, prompt: bytes, how: dict[str, Any], length: int) -> list[bytes]:
    if length < 0 or how["count"] < 1 or not 0 < how["top_p"] <= 1:
        raise UsageError(f"generate expects length >= 0, count >= 1 and top_p above 0 up to 1, found length {length}, "
                         f"count {how['count']} and top_p {how['top_p']}; give such")
    context, count, each = run._context, how["count"], lib.HD_TOKEN_BYTES
    with run._lock:
        config = Config(context, {name: run._options.get(name) for name in ("threads", "device")})
        generator = context.make("hd_generator", lib.hd_generator_create, os.fsencode(run.folder), config.pointer)
        try:
            context.check(lib.hd_generator_begin(generator, context.pointer, prompt, len(prompt),
                                                 ffi.new("hd_generation *", how)))
            token, size = ffi.new("char[]", count * each), ffi.new("size_t[]", count)
            texts = [bytearray(prompt) for _ in range(count)]
            view = ffi.buffer(token)
            for _ in range(length):
                context.check(lib.hd_generator_next(generator, context.pointer, token, size))
                for i, written in enumerate(texts):
                    written += view[i * each:i * each + size[i]]
        finally:
            lib.hd_generator_destroy(generator)
    return [bytes(written) for written in texts]


class Run:
    """A run's folder. heddle.train returns it, heddle.load opens it; pickled, it carries its last checkpoint."""

    def __init__(self, folder: Any, *, context: Context | None = None, model: Any = None,
                 report: dict[str, Any] | None = None, options: dict[str, Any] | None = None,
                 loss: Any = None) -> None:
        self._folder: pathlib.Path | None = pathlib.Path(folder).absolute()
        self._files: dict[str, Any] | None = None  # a copy in memory, of which a folder is made when it is asked for
        self.model = model if hasattr(model, "with_weights") else None  # for to_torch
        self._report = report
        self._options = options or {}
        self._targets: tuple[list[float], list[float]] | None = None  # mean and deviation of a regressor's targets
        self._loss = loss  # a function that trained it, for evaluations
        self._set_up(context or Context())

    def _set_up(self, context: Context) -> None:
        self._context = context
        self._making = threading.Lock()
        self._spare: tuple[dict[str, Any], int] | None = None  # the files, and the process that has the folder
        self._predictor: Any = None
        self._std: list[float] | None = None
        self._kept_record: dict[str, Any] | None = None  # of a run that no session changes any more
        self._lock = threading.Lock()

    @property
    def folder(self) -> pathlib.Path:
        """The run's folder; of a copy a temporary one, which goes with the object."""
        with self._making:
            if self._spare is not None and self._spare[1] != os.getpid():  # a forked child, whose parent has the folder
                self._folder, self._files, self._spare = None, self._spare[0], None
            if self._folder is None:
                self._folder = self._make_folder()
            return self._folder

    def __repr__(self) -> str:
        """Its folder, and what it was: it never fails, as a debugger shows it of any run."""
        try:
            record, state = self._record(), self._state_now()
            result = f"{record['model']!r} on {record['data']['name']!r}, {state}, "
        except Exception:  # pylint: disable=broad-except
            result = ""
        return f"Run({result}folder={str(self.folder)!r})"

    def _state_now(self) -> str:
        """done, stopped, failed, running or unfinished; a checkpoint by itself has none."""
        with self._lock:
            runs = self._context.make("hd_runs", lib.hd_runs_open, os.fsencode(self.folder))
            try:
                return text(lib.hd_runs_value(runs, 0, b"state")) if lib.hd_runs_count(runs) else "a checkpoint"
            finally:
                lib.hd_runs_close(runs)

    # ---- What it did ----

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, 64 hex digits: the same for every layout of the run."""
        out = ffi.new("char[]", lib.HD_SHA256_TEXT_BYTES)
        self._context.check(lib.hd_digest(out, self._context.pointer, os.fsencode(self.folder)))
        return text(out)

    @property
    def result(self) -> dict[str, Any]:
        """The session's report at the run's end, by the names of hd_report; empty for a run that was loaded."""
        return dict(self._report or {})

    @property
    def stopped(self) -> bool:
        """Whether it was ended by Ctrl-C or stop()."""
        return bool(self.result.get("stopped"))

    @property
    def losses(self) -> np.ndarray:
        """The mean loss of each step, before its update: float64 (steps)."""
        return self.numbers("loss")[1]

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Results of evaluations, float64 each: "step", and those of test_loss, test_accuracy, val_loss,
        val_accuracy, test_iou, val_iou that were measured."""
        keys = ("test_loss", "test_accuracy", "val_loss", "val_accuracy", "test_iou", "val_iou")
        found = {key: self.numbers(key) for key in keys}
        steps = max((steps for steps, _ in found.values()), key=len)
        return {"step": steps, **{key: values for key, (_, values) in found.items() if len(values)}}

    def numbers(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a key of metrics.jsonl, such as "lr"; of a list in history.jsonl, such as "confusion"."""
        with self._lock:
            context = self._context
            runs = context.make("hd_runs", lib.hd_runs_open, os.fsencode(self.folder))
            try:
                out = ffi.new("hd_run_numbers *", {"struct_bytes": ffi.sizeof("hd_run_numbers")})
                context.check(lib.hd_runs_numbers(out, runs, context.pointer, 0, key.encode()))
                return _copy("double", out.step, out.count), _copy("double", out.value, out.count)
            finally:
                lib.hd_runs_close(runs)

    def report(self, path: Any = None) -> Any:
        """Curves and confusion matrix, drawn where a notebook shows the result. With a path: writes the page of
        `heddle report` there, which needs no other file, and returns the path."""
        from .report import Report

        if path is None:
            return Report(self)
        from . import _program

        _program.run("report", self.folder, "--output", os.path.abspath(path))
        return pathlib.Path(path)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    # ---- Using it ----

    @takes_options(*_EVALUATION_OPTIONS)
    def evaluate(self, data: Any = None, sample_weight: Any = None, **options: Any) -> Evaluation:
        """Evaluates the last checkpoint on the test set of `data`, or of the run's data. All samples count of two
        arrays (x, y), and of a file, a folder or an object without a test set that is not the run's data; as often as
        `sample_weight` says, a number for each sample."""
        check_names(options, _EVALUATION_OPTIONS, "evaluate")
        context = self._context
        data = _data.join_heads(data, self)
        if isinstance(data, (tuple, list)) and len(data) == 2 and not _data.is_split(data):
            data = (*data, *data)
        if sample_weight is not None:
            if _data.is_pair_of_weights(sample_weight):
                raise UsageError("expected one array as sample_weight, for the samples that are evaluated, found two; "
                                 "give the test set's")
            data = _data.Weighed(_data.weigh(data, sample_weight).data, None, sample_weight)
        if data is not None and not isinstance(data, (str, os.PathLike)):
            context = Context()
        self._check_functions(context)
        name = _data.add(context, data, _data.OTHER) if data is not None else self._options.get("data")
        config = Config(context, {"data": name, **options})
        _losses.set_functions(context, config, {"loss": self._loss})
        out = ffi.new("hd_evaluation *", {"struct_bytes": ffi.sizeof("hd_evaluation")})
        context.check(lib.hd_evaluate(out, context.pointer, os.fsencode(self.folder), config.pointer))
        if self._loss is not None:
            context.check(lib.HD_OK)  # what a function raised none the less
        try:
            n = out.classes
            return Evaluation(**{name: getattr(out, name) for name in _EVALUATION_NUMBERS},
                              class_samples=_copy("int64_t", out.class_samples, n),
                              class_right=_copy("int64_t", out.class_right, n),
                              confusion=_copy("int64_t", out.confusion, n * n).reshape(n, n),
                              class_iou=_copy("double", out.class_iou, n if out.class_iou else 0),
                              class_names=[text(out.class_names[c]) if out.class_names[c] else "" for c in range(n)]
                              if out.class_names else [],
                              outputs=[{name: getattr(out.output[k], name) for name in _OUTPUT_NUMBERS}
                                       for k in range(out.outputs)],
                              heads={text(out.head[k].name): {name: value for name, value in
                                                              record_of(out.head[k]).items() if name != "name"}
                                     for k in range(out.heads)},
                              part=_PARTS.get(out.part, "test"))
        finally:
            lib.hd_evaluation_fini(out)

    def predict(self, x: Any) -> Any:
        """Predictions of the last checkpoint, float64 (N, K): probabilities of classes, or the outputs; of a model with
        several losses a dictionary of such arrays, one for each head. Of a network that predicts a class for each pixel
        the classes, uint8 (N, H, W).

        `x`: samples as for training, (N, C, H, W) or flat, uint8 pixels or floats; or a path, of a .csv file of rows, a
        .npy file of samples, or a PNG or JPEG file, N = 1.
        """
        if isinstance(x, (str, os.PathLike)):
            with self._lock:
                return self._of_heads(self._predict_file(os.fspath(x)))
        names, x = getattr(x, "columns", None), _arrays.as_numpy(x, "x")
        _arrays.warn_of_rounding(x, self._deviations(), names=names)
        x = _arrays.samples(x)
        with self._lock:
            predictor = self._predictor_of()
            out = np.empty((len(x), lib.hd_predictor_count(predictor)))
            value, context = _arrays.pointer("double", out), self._context
            self._check_shape(predictor, x)
            call, kind = ((lib.hd_predict_pixels, "uint8_t") if x.dtype == np.uint8 else
                          (lib.hd_predict_floats, "float"))
            context.check(call(value, predictor, context.pointer, _arrays.pointer(kind, x), len(x)))
            return self._of_heads(_values_or_masks(predictor, out))

    @property
    def heads(self) -> list[str]:
        """The names of the heads of a model with several losses, in the order of the columns of y; else none."""
        with self._lock:
            return list(self._head_columns())

    def _head_columns(self) -> dict[str, slice]:
        """The heads of a model with several losses, and their columns of a prediction."""
        head, predictor = ffi.new("hd_predicted_head *"), self._predictor_of()
        heads: dict[str, slice] = {}
        while lib.hd_predictor_head(head, predictor, len(heads)):
            heads[text(head.name)] = slice(head.first, head.first + head.count)
        return heads

    def _of_heads(self, values: np.ndarray) -> Any:
        """The values of each head by its name, where there are several."""
        return {name: values[:, columns] for name, columns in self._head_columns().items()} or values

    def generate(self, prompt: str | bytes = "", *, length: int = 500, temperature: float = 1.0,
                 top_k: int | None = None, top_p: float | None = None, seed: int = 0, count: int | None = None) -> Any:
        """A text as the network writes it, which was trained on text: the prompt, and `length` tokens that follow it.
        The same on every machine. With `count` a list of so many texts, which are written at the same time; the first
        one is that without it. Bytes are returned for a prompt of bytes.

        Scores are divided by `temperature`, 0 always takes the most likely token; `top_k` draws from the most likely
        tokens, `top_p` from the fewest whose probabilities add up to it.

        >>> run.generate("ROMEO:", length=200, seed=7)  # doctest: +SKIP
        """
        start = prompt if isinstance(prompt, bytes) else prompt.encode()
        texts = _texts(self, start, {"temperature": temperature, "top_k": top_k or 0, "seed": seed,
                                     "top_p": 1.0 if top_p is None else top_p, "count": 1 if count is None else count},
                       length)
        found = texts if isinstance(prompt, bytes) else [each.decode("utf-8", "replace") for each in texts]
        return found[0] if count is None else found

    @property
    def class_names(self) -> Any:
        """The names of the classes, in the order of the columns of predict, or by the numbers of pixels; "" for one
        without a name, and none where it predicts no classes. Of a model with several losses a dictionary of such
        lists, for the heads whose classes have names."""
        with self._lock:
            predictor = self._predictor_of()
            if lib.hd_predictor_gives(predictor) == lib.HD_PREDICTS_HEADS:
                named = {name: [text(lib.hd_predictor_head_class(predictor, k, c)) for c in range(of.stop - of.start)]
                         for k, (name, of) in enumerate(self._head_columns().items())}
                return {name: of for name, of in named.items() if any(of)}
            if lib.hd_predictor_gives(predictor) not in (lib.HD_PREDICTS_CLASSES, lib.HD_PREDICTS_PIXELS):
                return []
            return [text(lib.hd_predictor_class_name(predictor, c)) for c in range(lib.hd_predictor_count(predictor))]

    def _predict_file(self, path: str) -> np.ndarray:
        predictor, context, rows = self._predictor_of(), self._context, None
        if path.lower().endswith((".csv", ".npy")):
            rows = context.make("hd_rows", lib.hd_rows_open, predictor, os.fsencode(path))
        count = lib.hd_rows_count(rows) if rows else 1
        out = np.empty((count, lib.hd_predictor_count(predictor)))
        value = _arrays.pointer("double", out)
        if not rows:
            context.check(lib.hd_predict_picture(value, predictor, context.pointer, os.fsencode(path)))
            return _values_or_masks(predictor, out)
        try:
            context.check(lib.hd_predict_rows(value, predictor, context.pointer, rows, 0, count))
        finally:
            lib.hd_rows_close(rows)
        return _values_or_masks(predictor, out)

    def _record(self) -> dict[str, Any]:
        if self._kept_record is not None:
            return self._kept_record
        files = self._files
        if files is not None:
            return json.loads(files["files"]["run.json"])
        with open(self.checkpoint / "run.json", encoding="utf-8") as record:
            return json.load(record)

    def _check_functions(self, context: Context) -> None:
        """Transforms in Python are in no file: the run that heddle.train returned has them, a copy has not."""
        if context.functions:
            return
        try:
            settings = self._record()["settings"]
        except (OSError, ValueError, KeyError):
            return  # the library says what is wrong
        if any("python_" in str(settings.get(name)) for name in ("transforms", "eval_transforms", "eval-transforms")):
            raise UnsupportedError("expected a run whose transforms are all of the library, found a function in "
                                   "Python, which its files do not have; use the run that heddle.train returned, on "
                                   "its own data or by predict")

    def _deviations(self) -> list[float]:
        """The standard deviation of each number of a row in training; none where rows are not normalised so."""
        if self._std is None:
            features = self._record().get("data", {}).get("features", {}).get("of", [])
            self._std = [feature["std"] for feature in features]
        return self._std

    def _scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the standard deviation that normalise rows of floats: of each number, or one for all."""
        record = self._record()
        features = record["data"].get("features", {}).get("of", [])
        settings = record["settings"]
        transforms = settings.get("transforms")
        if transforms and re.sub(r"[\[\]\"' ]", "", str(transforms)) != "to_float":
            raise UsageError("expected a run whose columns are normalised by themselves, found one with transforms")
        if features:
            return np.array([f["mean"] for f in features]), np.array([f["std"] for f in features])
        if transforms or settings.get("normalize") == "none":
            return np.zeros(1), np.ones(1)
        return np.array(record["data"]["mean"]), np.array(record["data"]["std"])

    def _predictor_of(self) -> Any:
        if self._predictor is None:
            self._check_functions(self._context)
            config = Config(self._context, {name: self._options.get(name) for name in ("threads", "device")})
            self._predictor = self._context.make("hd_predictor", lib.hd_predictor_create, os.fsencode(self.folder),
                                                 config.pointer)
            weakref.finalize(self, lib.hd_predictor_destroy, self._predictor)
        return self._predictor

    def _gives(self) -> tuple[int, int]:
        """What predict returns, a value of hd_predicts, and how many numbers of each sample."""
        with self._lock:
            predictor = self._predictor_of()
            return lib.hd_predictor_gives(predictor), lib.hd_predictor_count(predictor)

    @staticmethod
    def _check_shape(predictor: Any, x: np.ndarray) -> None:
        shape = ffi.new("int32_t[3]")
        lib.hd_predictor_input(shape, predictor)
        if tuple(shape) != x.shape[1:] and (x.shape[1] * x.shape[2] != 1 or x[0].size != np.prod(list(shape))):
            one = " one sample is x[None]," if x.size == np.prod(list(shape)) else ""
            raise ShapeError(f"expected samples of {tuple(shape)} as the model's input, found {x.shape[1:]};{one} "
                             "reshape x")

    # ---- For others ----

    def export(self, *, onnx: Any = None, c: Any = None) -> None:
        """Writes the network for other programs: an ONNX file, one C file without dependencies, or both. They take what
        predict takes, and compute the scores before any softmax."""
        if onnx is None and c is None:
            raise UsageError("export expects onnx=, c= or both, found neither; give the path of a file")
        if self._targets is not None:
            warnings.warn("the network of a regressor predicts standardised targets: multiply its outputs by "
                          f"{self._targets[1]} and add {self._targets[0]}, the estimator's y_std_ and y_mean_",
                          UserWarning, stacklevel=2)
        for kind, path in ((lib.HD_EXPORT_ONNX, onnx), (lib.HD_EXPORT_C, c)):
            if path is not None:
                self._context.check(lib.hd_model_export(self._context.pointer, os.fsencode(self.folder), kind,
                                                        os.fsencode(path)))

    def certify(self, path: Any = None) -> pathlib.Path:
        """Writes the certificate of a run that has ended, which heddle.verify checks; returns its path, by default
        certificate.json in the run's folder. The data must be there."""
        where = pathlib.Path(path) if path is not None else self.folder / "certificate.json"
        self._context.check(lib.hd_certify(self._context.pointer, os.fsencode(self.folder), os.fsencode(where)))
        return where

    def summary(self, **options: Any) -> Any:
        """The layers of its network, their costs, and the memory of a training run: see heddle.summary."""
        from ._summary import summary

        return summary(self, **options)

    @property
    def model_text(self) -> str:
        """Its network as a model file has it."""
        return self._record()["model_yaml"]

    # ---- Its files ----

    @property
    def checkpoint(self) -> pathlib.Path:
        """The folder of its last checkpoint."""
        last = self.folder / "last"
        return last.resolve() if last.exists() else self.folder

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name, mapped from the file: read only."""
        return read_weights(self.checkpoint / "model.safetensors")

    def save(self, path: Any) -> None:
        """Copies the last checkpoint to a new folder, or with a name in .safetensors the weights alone."""
        path = pathlib.Path(path)
        if path.suffix == ".safetensors":
            shutil.copyfile(self.checkpoint / "model.safetensors", path)
        elif path.exists():
            raise UsageError(f"expected a new folder to save to, found {path} there; remove it, or choose another")
        else:
            shutil.copytree(self.checkpoint, path)

    def to_torch(self) -> Any:
        """The module that was given to heddle.from_torch, with the weights of the last checkpoint: a copy."""
        if not hasattr(self.model, "with_weights"):  # a TorchModel
            raise UsageError("expected a run of a model by heddle.from_torch, found another; load its weights with "
                             "load_state_dict(heddle.load(folder).weights)")
        return self.model.with_weights(self.weights)

    def detached(self, best: bool = False) -> Run:
        """A copy with the last checkpoint, or the best one, in a temporary folder, which goes with the object."""
        result = Run.__new__(Run)
        result.__setstate__(self._state("best" if best else "last"))
        return result

    def _alone(self, top: str, best: bool = False) -> Run:
        """As detached, of a run in the temporary folder `top`: a small run stays there, which saves a copy."""
        step = os.readlink(self.folder / ("best" if best else "last"))
        if sum(file.stat().st_size for file in os.scandir(self.folder / step)) >= _SMALL:
            result = self.detached(best)
            remove_folder(top, os.getpid())
            return result
        if best:
            os.symlink(step, self.folder / "chosen")
            os.replace(self.folder / "chosen", self.folder / "last")
        result = Run(self.folder, model=self.model, report=None if best else self._report, options=self._layout(),
                     loss=self._loss)
        weakref.finalize(result, remove_folder, top, os.getpid())
        result._kept_record = result._record()
        return result

    def _keep_for_children(self) -> None:
        """Of a run in a temporary folder: a child by fork makes a folder of its own of what is kept here."""
        if self._files is None:
            self._spare = self._state("last"), os.getpid()

    def _normalise_as(self, first: Run) -> None:
        """For a run in a folder of its own, whose rows were normalised before they were given to it, as those of
        `first` are by itself: what it reads it normalises so."""
        record, of_first = self._record(), first._record()
        record["settings"]["normalize"] = of_first["settings"]["normalize"]
        for name in ("features", "mean", "std"):
            if name in of_first["data"]:
                record["data"][name] = of_first["data"][name]
        (self.checkpoint / "run.json").write_text(json.dumps(record), encoding="utf-8")

    def _layout(self) -> dict[str, Any]:
        """What a copy keeps of its options."""
        return {name: self._options.get(name) for name in ("threads", "device")}

    # A copy has the last checkpoint and the records of the whole run, in a folder that goes with the object.

    def __getstate__(self) -> dict[str, Any]:
        return self._state("last")

    def _state(self, which: str) -> dict[str, Any]:
        def files(folder: pathlib.Path, *names: str) -> dict[str, bytes]:
            return {path.name: path.read_bytes() for path in folder.iterdir()
                    if path.is_file() and (not names or path.name in names)}

        kept = self._files
        if kept is not None:  # nothing has changed since
            return {**kept, "model": self.model, "report": self._report, "targets": self._targets}
        step = (self.folder / which).resolve() if (self.folder / which).exists() else self.checkpoint
        records = files(self.folder, *_RECORDS) if step != self.folder.resolve() else {}
        return {"files": files(step), "step": step.name, "records": records, "model": self.model, "loss": self._loss,
                "targets": self._targets, "report": self._report if which == "last" else None,
                "options": self._layout()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._folder, self._files = None, state
        self.model, self._report, self._options = state["model"], state["report"], state.get("options", {})
        self._loss, self._targets = state.get("loss"), state.get("targets")
        self._set_up(Context())

    def _make_folder(self) -> pathlib.Path:
        """The folder of a copy, whose files are there alone from then on."""
        state = self._files
        size = sum(map(len, (*state["files"].values(), *state.get("records", {}).values())))
        top = folder = pathlib.Path(tempfile.mkdtemp(prefix="heddle-", dir=in_memory(size, _SMALL)))
        weakref.finalize(self, remove_folder, top, os.getpid())
        if state.get("records"):
            folder = top / state["step"]
            folder.mkdir()
            (top / "last").symlink_to(state["step"])
        for where, contents in ((folder, state["files"]), (top, state.get("records", {}))):
            for name, content in contents.items():
                (where / name).write_bytes(content)
        self._files = None
        return top


def in_memory(size: int, most: int) -> str | None:
    """Where a temporary folder of so many bytes goes: in memory, if it has room for them and they are not more than
    `most`; None, on the disk."""
    return _MEMORY if _MEMORY and size <= min(most, shutil.disk_usage(_MEMORY).free) else None


@contextlib.contextmanager
def folder_of_run(where: str | None) -> Iterator[str]:
    """A temporary folder for a run, in `where`, which stays for Run._alone; an exception removes it."""
    folder = tempfile.mkdtemp(prefix="heddle-", dir=where)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_folder(folder: Any, process: int) -> None:
    """Removes the temporary folder of an object; not in a forked child, whose parent has it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def load(folder: Any, *, threads: int | str | None = None, device: str | None = None, loss: Any = None) -> Run:
    """The run in a folder, or a checkpoint, ready to predict; `threads` and `device` are those of predictions. `loss`
    is the function that it was trained with, without which it is not evaluated.

    >>> import heddle
    >>> path = heddle.train("simplenet", "digits", max_steps=3, out=folder).folder
    >>> heddle.load(path).predict(np.zeros((2, 28, 28), np.uint8)).shape
    (2, 10)
    """
    run = Run(folder, options={"threads": threads, "device": device}, loss=loss)
    run.digest  # pylint: disable=pointless-statement  # raises where there is none
    return run


def _values_or_masks(predictor: Any, values: np.ndarray) -> np.ndarray:
    """The values of a prediction or, where it is of pixels, their classes."""
    if lib.hd_predictor_gives(predictor) != lib.HD_PREDICTS_PIXELS:
        return values
    size = ffi.new("int32_t[2]")
    return np.stack([_copy("uint8_t", lib.hd_predictor_mask(size, predictor, i), size[0] * size[1]).reshape(tuple(size))
                     for i in range(len(values))])


_KINDS = {"double": "f8", "int64_t": "i8", "uint8_t": "u1"}


def _copy(kind: str, pointer: Any, count: int) -> np.ndarray:
    if count == 0 or pointer == ffi.NULL:
        return np.empty(0, _KINDS[kind])
    buffer = ffi.buffer(pointer, count * ffi.sizeof(kind))
    return np.frombuffer(buffer, _KINDS[kind]).copy()


# ---- Safetensors: a length, a header in JSON, the bytes of the tensors ----

_DTYPES = {"F32": "<f4", "I64": "<i8"}  # I64: the batches that a batch norm has seen


def read_weights(path: Any) -> dict[str, np.ndarray]:
    """The tensors of a file, mapped."""
    file = np.memmap(path, np.uint8, "r")
    start = 8 + int(file[:8].view("<u8")[0])
    header = json.loads(bytes(file[8:start]))
    header.pop("__metadata__", None)
    return {name: np.ndarray(t["shape"], _DTYPES[t["dtype"]], file, start + t["data_offsets"][0])
            for name, t in header.items()}


def write_weights(path: Any, weights: dict[str, np.ndarray]) -> None:
    pathlib.Path(path).write_bytes(weights_bytes(weights))


def weights_bytes(weights: dict[str, np.ndarray]) -> bytes:
    """A file of tensors of int64, and all others as float32."""
    header, contents, end = {}, [], 0
    for name, array in weights.items():
        kind = "I64" if array.dtype == np.int64 else "F32"
        contents.append(array.astype(_DTYPES[kind]).tobytes())
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + len(contents[-1])]}
        end += len(contents[-1])
    start = json.dumps(header).encode()
    start += b" " * (-len(start) % 8)
    return b"".join([len(start).to_bytes(8, "little"), start, *contents])
