"""Data sets and transforms of the program: arrays, and objects and functions written in Python.

A data set in Python has __len__ and __getitem__, as PyTorch's have: sample i is (x, y), x of one shape and dtype (uint8
pixels or floats), y a class number or float targets. With __getitems__(indices), which returns a list of such samples
or a pair of arrays, samples are read a batch at a time. A sample depends on its index alone: samples are read once and
kept, unless they are too large (the option cache). Randomness belongs in transforms.

The library calls these from its threads; each call takes the interpreter's lock and gives it back.
"""
from __future__ import annotations

import array
import inspect
import json
import threading
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from . import _arrays
from ._library import Context, FormatError, ShapeError, UnsupportedError, UsageError, ffi, lib, write_why

NAME = "python"  # of the data set of a context, which run.json keeps
OTHER = "other"  # of one that a run is evaluated on, of which the run's fold is no part
AT_ONCE = 64  # samples that __getitems__ is asked for


class Weighed:
    """Arrays with a weight for each sample: in losses and scores a sample counts as often as its weight says. `classes`
    is the number of classes, where the labels may lack some."""

    def __init__(self, data: Any, train: Any, test: Any = None, classes: int = 0) -> None:
        self.data, self.train, self.test, self.classes = data, train, test, classes


def weigh(data: Any, sample_weight: Any) -> Any:
    """Data with weights, None for none: an array for the samples, or a pair of arrays where there is a test set."""
    if sample_weight is None:
        return data
    if data is None or isinstance(data, str) or hasattr(data, "__fspath__"):
        raise UsageError("expected arrays (x, y) with sample_weight, found a name or a path; name a column of a CSV "
                         "file with weights=, or save an array sample_weight next to x and y")
    if is_set(data):
        raise UsageError("expected arrays (x, y) with sample_weight, found a data set in Python; give arrays")
    _, test = _splits(data)
    if not is_pair_of_weights(sample_weight):
        return Weighed(data, sample_weight)
    if test is None:
        raise UsageError("expected one array as sample_weight, found two, and data without a test set; leave one out")
    return data if all(w is None for w in sample_weight) else Weighed(data, *sample_weight)


def is_pair_of_weights(weights: Any) -> bool:
    """Whether it is (w, w_test), one of which may be None: those samples count equally.

    >>> [is_pair_of_weights(w) for w in (([1, 2], [3, 4, 5]), ([1, 2], None), [1, 2], np.ones((2, 3)))]
    [True, True, False, False]
    """
    return isinstance(weights, (tuple, list)) and len(weights) == 2 and all(
        w is None or (hasattr(w, "__len__") and not np.isscalar(w)) for w in weights)


def add(context: Context, data: Any, name: str = NAME) -> Any:
    """Registers data with a context; returns the value of the option `data`."""
    if data is None or isinstance(data, str) or hasattr(data, "__fspath__"):
        return data
    if name == NAME:
        context.data = data
    if isinstance(data, Weighed):
        return _add_arrays(context, *_splits(data.data), name, (data.train, data.test), data.classes)
    if is_set(data):
        return _add_sets(context, *((data, None) if _is_set(data) else data), name)
    return _add_arrays(context, *_splits(data), name)


def write(data: Any, folder: str) -> None:
    """Writes data of the program as a folder of .npy files with the same samples, for what repeats a run."""
    weights = (data.train, data.test) if isinstance(data, Weighed) else (None, None)
    data = data.data if isinstance(data, Weighed) else data
    if _is_set(data):
        data = (data, None)
    if len(data) == 2 and all(part is None or _is_set(part) for part in data):
        parts = _read_sets([part for part in data if part is not None])
    else:
        train, test = _splits(data)
        parts = [(_arrays.samples(x, "x"), y) for x, y in ([train] + [test] * (test is not None))]
    for (x, y), part, w in zip(parts, ("train", "test") if len(parts) == 2 else ("",), weights):
        end = f"_{part}.npy" if part else ".npy"
        if w is not None:
            np.save(f"{folder}/sample_weight{end}", _arrays.weights(w, len(x)))
        x = x.reshape(len(x), -1) if x.shape[1] == x.shape[2] == 1 else x
        np.save(f"{folder}/x{end}", x)
        np.save(f"{folder}/y{end}", _arrays.labels(y, len(x)))


def _read_sets(sets: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    readers, parts = [_Reader(data) for data in sets], []
    for reader in readers:
        samples = [reader.checked(i) for i in range(len(reader.data))]
        readers[0].check(*samples[0], "the training set's")
        parts.append((np.stack([x for x, _ in samples]), np.stack([y for _, y in samples])))
    classes = max(reader.classes() for reader in readers)
    last = max(int(y.max()) for _, y in parts) if classes else -1
    if classes > last + 1:
        raise UnsupportedError(f"expected labels up to the last of {classes} classes, since files of arrays state no "
                               f"other number of classes, found labels up to {last}; add a sample of the last class, "
                               "or train without files, by heddle.train")
    return parts


def _is_loader(data: Any) -> bool:
    return hasattr(data, "dataset") and hasattr(data, "batch_size") and hasattr(data, "collate_fn")


def of_loaders(data: Any, options: dict[str, Any]) -> Any:
    """The data sets of a PyTorch DataLoader, or of two, in the place of these; their batch, workers, drop_last and
    order become options, where none are given. heddle reads samples itself: in the order of its own seed."""
    parts = list(data) if isinstance(data, (tuple, list)) and len(data) == 2 else [data]
    if not any(map(_is_loader, parts)):
        return data
    loader = parts[0]
    if not _is_loader(loader) or not all(_is_loader(part) or _is_set(part) for part in parts):
        raise UsageError("expected a DataLoader for training, and one or a data set for testing, found something else; "
                         "give data sets")
    if loader.batch_size is None:
        raise _refused_loader("a batch_sampler")
    for part in filter(_is_loader, parts):
        _check_loader(part)
    found = {"batch": loader.batch_size, "workers": loader.num_workers, "drop_last": loader.drop_last,
             "no_shuffle": type(loader.sampler).__name__ == "SequentialSampler"}
    for name, value in found.items():
        if options.get(name) is None and value not in (0, False):
            options[name] = value
    sets = [part.dataset if _is_loader(part) else part for part in parts]
    return sets[0] if len(sets) == 1 else tuple(sets)


def _refused_loader(found: str) -> UsageError:
    return UsageError("expected a DataLoader that takes all samples in batches, in order or shuffled, found one with "
                      f"{found}; pass its dataset, with sampler= as an option")


def _check_loader(loader: Any) -> None:
    """It takes each sample once, and gives it as its data set does."""
    sampler = loader.sampler
    name = type(sampler).__name__
    if name not in ("RandomSampler", "SequentialSampler") or getattr(sampler, "replacement", False):
        raise _refused_loader(f"a {name}")
    count, taken = len(loader.dataset), len(sampler)
    if taken != count or len(sampler.data_source) != count:
        raise _refused_loader(f"a {name} of {taken} samples for {count}")
    if loader.batch_size is None and loader.batch_sampler is not None:
        raise _refused_loader("a batch_sampler")
    if getattr(loader.collate_fn, "__name__", "") not in ("default_collate", "default_convert"):
        raise UsageError("expected a DataLoader without a collate_fn, found one, which heddle would not call; let "
                         "the data set's __getitem__ return what a sample is")


def is_set(data: Any) -> bool:
    """Whether it is a data set in Python, or a training and a test set."""
    return _is_set(data) or (isinstance(data, (tuple, list)) and len(data) == 2 and all(map(_is_set, data)))


def is_rows(data: Any) -> bool:
    """Whether its samples are rows of a data set in Python, which are normalised per channel; of arrays, per column."""
    return is_set(data) and _Reader(data if _is_set(data) else data[0]).shape[:2] == (1, 1)


def is_split(data: Any) -> bool:
    """Whether data of two parts are a training and a test set, ((x, y), (x_test, y_test)) or two sets; not (x, y)."""
    def is_pair(part: Any) -> bool:
        return isinstance(part, (tuple, list)) and len(part) == 2 and all(np.ndim(a) > 0 for a in part)

    return all(_is_set(part) or is_pair(part) for part in data)


def _splits(data: Any) -> tuple[tuple[Any, Any], tuple[Any, Any] | None]:
    """(x, y), (x, y, x_test, y_test) or ((x, y), (x_test, y_test)) as a training and a test set."""
    if isinstance(data, (tuple, list)):
        if len(data) == 4:
            return (data[0], data[1]), (data[2], data[3])
        if len(data) == 2 and is_split(data):
            return tuple(data[0]), tuple(data[1])
        if len(data) == 2:
            return (data[0], data[1]), None
    of = f" of {len(data)}" if isinstance(data, (tuple, list, dict)) else ""
    raise UsageError("expected a name, a path, (x, y), (x, y, x_test, y_test) or an object with __len__ and "
                     f"__getitem__ as data, found {type(data).__name__}{of}; see heddle.data")


# ---- Several arrays of labels ----

def join_heads(data: Any, model: Any) -> Any:
    """Arrays whose y is several arrays, for a model or a run with several losses, with one y, (N, K), in the order of
    the losses: a tuple or a list of arrays (N) or (N, k) in that order, or a dictionary by the names of its heads.

    >>> from types import SimpleNamespace
    >>> x, y = np.zeros((3, 2)), {"size": np.ones(3), "kind": [0, 2, 1]}
    >>> join_heads((x, y), SimpleNamespace(heads=["kind", "size"]))[1].tolist()
    [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0]]
    """
    def pair(x: Any, y: Any) -> tuple[Any, Any]:
        if isinstance(y, dict):
            names = list(getattr(model, "heads", ()))
            if not names:
                raise UsageError("expected an array as y, found a dictionary, but no model whose heads have its names; "
                                 "give a tuple of arrays, in the order of the losses")
            if set(y) != set(names):
                raise UsageError(f"expected y by the names of the model's heads, {', '.join(names)}, found "
                                 f"{', '.join(map(str, y))}; give an array for each head")
            return x, _joined([y[name] for name in names], len(x), names)
        is_several = isinstance(y, (tuple, list)) and all(np.ndim(each) > 0 for each in y)
        if is_several and (len(y) != len(x) or isinstance(y, tuple) and len(y) == len(getattr(model, "heads", ()))):
            return x, _joined(y, len(x), range(len(y)))
        return x, y

    if not isinstance(data, (tuple, list)) or len(data) not in (2, 4) or any(map(_is_set, data)):
        return data
    if len(data) == 4:
        return (*pair(*data[:2]), *pair(*data[2:]))
    is_divided = all(isinstance(part, (tuple, list)) and len(part) == 2 for part in data)
    return tuple(pair(*part) for part in data) if is_divided else pair(*data)


def _joined(parts: Sequence[Any], count: int, names: Iterable[Any]) -> np.ndarray:
    columns = []
    for part, name in zip(parts, names):
        y = _arrays.as_numpy(part, f"y[{name!r}]")
        if y.dtype.kind not in "buif" or y.ndim not in (1, 2) or len(y) != count:
            raise ShapeError(f"expected numbers (N) or (N, K) as y[{name!r}], of {count} samples, found {y.dtype} of "
                             f"{y.shape}; the arrays do not belong together")
        columns.append(y.reshape(count, -1).astype(np.float64))
    return np.concatenate(columns, 1)


# ---- Arrays ----

def _fill(custom: Any, shape: Sequence[int], dtype: Any, classes: int, outputs: int) -> None:
    custom.struct_bytes = ffi.sizeof("hd_custom_data")
    custom.channels, custom.height, custom.width = shape
    custom.dtype = lib.HD_U8 if dtype == np.uint8 else lib.HD_F32
    custom.classes, custom.outputs = classes, outputs


def _c_arrays(x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> Any:
    out = ffi.new("hd_custom_arrays *", {"struct_bytes": ffi.sizeof("hd_custom_arrays"), "count": len(x)})
    if x.dtype == np.uint8:
        out.bytes = _arrays.pointer("uint8_t", x)
    else:
        out.floats = _arrays.pointer("float", x)
    if y.dtype == np.uint8:
        out.masks = _arrays.pointer("uint8_t", y)
    elif y.dtype == np.int32:
        out.labels = _arrays.pointer("int32_t", y)
    else:
        out.targets = _arrays.pointer("float", y)
    if w is not None:
        out.weights = _arrays.pointer("float", w)
    return out


def _add_arrays(context: Context, train: tuple[Any, Any], test: tuple[Any, Any] | None, called: str,
                weights: tuple[Any, Any] = (None, None), classes: int = 0) -> str:
    parts = []
    for (x, y), w, which in zip([train] + [test] * (test is not None), weights, ("", "_test")):
        x = _arrays.samples(x, "x" + which)
        parts.append((x, _arrays.labels(y, len(x), "y" + which),
                      None if w is None else _arrays.weights(w, len(x), "sample_weight" + which)))
    x, y, _ = parts[0]
    for other, its, _ in parts[1:]:
        if (other.shape[1:], other.dtype, its.dtype) != (x.shape[1:], x.dtype, y.dtype):
            raise ShapeError(f"expected x_test and y_test as x and y: samples of {x.shape[1:]} {x.dtype}, {y.dtype}, "
                             f"found {other.shape[1:]} {other.dtype}, {its.dtype}; convert one of them")
        if y.ndim == 2 and its.shape[1] != y.shape[1]:
            raise ShapeError(f"expected {y.shape[1]} targets of each sample in y_test, as in y, found {its.shape[1]}; "
                             "give as many")
    for x, y, _ in parts:
        if y.ndim == 3 and y.shape[1:] != x.shape[2:]:
            raise ShapeError(f"expected a class for each pixel of {x.shape[2]}x{x.shape[3]} pictures, found masks of "
                             f"{y.shape[1]}x{y.shape[2]}; the arrays do not belong together")
    custom = ffi.new("hd_custom_data *")
    is_class = y.dtype != np.float32
    last = max(int(np.max(y, initial=0, where=y != _arrays.NO_CLASS if y.ndim == 3 else True))
               for _, y, _ in parts) if is_class else -1
    _fill(custom, x.shape[1:], x.dtype, max(1 + last, classes if is_class else 0), 0 if is_class else y.shape[1])
    name, c = ffi.new("char[]", called.encode()), [_c_arrays(*part) for part in parts]
    custom.name, custom.train, custom.test = name, c[0], c[1] if test else ffi.NULL
    context.kept += [parts, c, name]
    context.check(lib.hd_data_add(context.pointer, custom))
    return called


# ---- Folds ----

def folds(y: Any, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The parts of a cross-validation, those of `heddle sweep --folds n`: for each of n folds the indices to train and
    to test, as scikit-learn's parameter cv takes them. Of each class in y (N) all folds have equally many samples, or
    one more; floats are targets, without classes.

    >>> [test.tolist() for train, test in folds(["a", "b"] * 3, 3)]
    [[0, 5], [2, 3], [1, 4]]
    """
    y = np.asarray(y)
    labels = None if y.dtype.kind == "f" or y.ndim != 1 else np.unique(y, return_inverse=True)[1].astype(np.int32)
    context, fold = Context(), np.empty(len(y), np.int32)
    context.check(lib.hd_folds(_arrays.pointer("int32_t", fold), context.pointer, len(y),
                               ffi.NULL if labels is None else _arrays.pointer("int32_t", labels), n))
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(1, n + 1)]


# ---- Data sets in Python ----

_OF_ARRAYS = ("dtype", "__array__", "__array_interface__", "__dlpack__")  # and of tables, but of no data sets


def _is_set(data: Any) -> bool:
    return (hasattr(data, "__len__") and hasattr(data, "__getitem__")
            and not any(hasattr(data, name) for name in _OF_ARRAYS)
            and not isinstance(data, (tuple, list, dict, str, bytes, bytearray, memoryview, array.array)))


def _row(x: Any) -> np.ndarray:
    return _arrays.samples(_arrays.as_numpy(x, "a sample's x")[None], "a sample's x")[0]


def _target(y: Any) -> np.ndarray:
    several = y if isinstance(y, tuple) and y else [y]  # of several heads
    for each in several:
        _arrays.check_mask(each, "a sample's y")
    parts = [np.asarray(each) for each in several]
    for part in parts:
        if part.ndim > 1:
            raise ShapeError(f"expected a class or numbers (K) as a sample's y, found the shape {part.shape}; for a "
                             "class for each pixel give arrays (x, y), with y (N, H, W), or a folder of masks")
    y = np.concatenate([part.ravel() for part in parts]) if len(parts) > 1 else parts[0]
    return _arrays.labels(y[None], 1, "a sample's y")[0]


class _Reader:
    """A data set as the library reads it: sample by sample, from several threads."""

    def __init__(self, data: Any) -> None:
        self.data, self.lock = data, threading.Lock()
        self.first, self.batch = -1, [(None, None)]  # the batch at hand, of sets that give batches
        if len(data) < 1:
            raise FormatError(f"expected samples in the data set, found a length of {len(data)}; add some")
        x, self.y = self.sample(0)
        self.shape, self.dtype = x.shape, x.dtype
        self.outputs = len(self.y) if self.y.ndim else 0

    def sample(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.batched(index) if hasattr(self.data, "__getitems__") else self.data[index]
        return _row(x), _target(y)

    def batched(self, index: int) -> tuple[Any, Any]:
        first = index - index % AT_ONCE
        with self.lock:
            if self.first != first:
                indices = list(range(first, min(first + AT_ONCE, len(self.data))))
                self.batch, self.first = _pairs(self.data.__getitems__(indices), len(indices)), first
            return self.batch[index - first]

    def classes(self) -> int:
        """Of the attribute `classes`, a number or a list of names; else one more than the largest label."""
        known = getattr(self.data, "classes", None)
        if self.outputs:
            return 0
        if known is not None:
            if isinstance(known, (list, tuple, np.ndarray)) and np.ndim(known) == 1:
                return len(known)
            if isinstance(known, (int, np.integer)):
                return int(known)
            raise UsageError(f"expected the number of classes or a list of their names as classes, found {known!r}; "
                             "write a list")
        targets = getattr(self.data, "targets", None)
        if targets is None:
            targets = [self.sample(i)[1] for i in range(len(self.data))]
        return 1 + int(np.max(np.asarray(targets)))

    def checked(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.sample(index)
        self.check(x, y, "the first")
        return x, y

    def check(self, x: np.ndarray, y: np.ndarray, of: str) -> None:
        """The library has memory for samples that are as the first one."""
        if x.shape != self.shape or x.dtype != self.dtype:
            raise ShapeError(f"expected samples of {self.shape} {self.dtype} as {of}, found {x.shape} {x.dtype}; "
                             "make them equal")
        if y.shape != self.y.shape:
            wanted, found = (f"{len(each)} targets" if np.ndim(each) else "a class" for each in (self.y, y))
            raise ShapeError(f"expected {wanted} as {of}, found {found}; make them equal")

    def fill(self, index: int, out: Any) -> None:
        x, y = self.checked(index)
        to = out.bytes if self.dtype == np.uint8 else out.floats
        ffi.memmove(to, x.data.cast("B"), x.nbytes)
        if self.outputs:
            ffi.memmove(out.targets, y.data.cast("B"), 4 * self.outputs)
        else:
            out.label = int(y)


def _pairs(batch: Any, count: int) -> list[tuple[Any, Any]]:
    """A batch as a list of samples, from a list of them or a pair of arrays."""
    pairs = list(zip(*batch)) if isinstance(batch, tuple) and len(batch) == 2 else list(batch)
    if len(pairs) != count:
        raise ShapeError(f"expected {count} samples of __getitems__, found {len(pairs)}; return one for each index")
    return pairs


def _add_sets(context: Context, train: Any, test: Any, called: str) -> str:
    readers = [_Reader(data) for data in (train, test) if data is not None]
    handles = [ffi.new_handle(reader) for reader in readers]
    first, calls = readers[0], context.calls
    for other in readers[1:]:
        first.check(*other.sample(0), "the training set's")

    @ffi.callback("int64_t(void *)", error=-1, onerror=calls.escaped)
    def length(self: Any) -> int:
        return len(ffi.from_handle(self).data)

    @ffi.callback("int(void *, int64_t, hd_custom_sample *)", error=1, onerror=calls.escaped)
    def get(self: Any, index: int, out: Any) -> int:
        try:
            if isinstance(calls.failure, KeyboardInterrupt):
                raise calls.failure
            ffi.from_handle(self).fill(index, out)
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            calls.caught(error)
            write_why(out.why, ffi.sizeof(out.why), error)
            return 1

    custom = ffi.new("hd_custom_data *")
    classes = max(reader.classes() for reader in readers)
    _fill(custom, first.shape, first.dtype, classes, first.outputs)
    name = ffi.new("char[]", called.encode())
    custom.name, custom.train, custom.test = name, handles[0], handles[1] if test is not None else ffi.NULL
    custom.len, custom.get = length, get
    context.kept += [readers, handles, length, get, name]
    context.check(lib.hd_data_add(context.pointer, custom))
    return called


# ---- Transforms in Python ----

def add_transforms(context: Context, transforms: Any) -> Any:
    """Registers the functions of a list of transforms; returns the value of the option."""
    if not isinstance(transforms, (list, tuple)):
        return transforms
    names = [_add_transform(context, entry) if callable(entry) else entry for entry in transforms]
    return json.dumps(names)


def _call_of(function: Callable[..., Any]) -> tuple[bool, Callable[[Any, Any], Any]]:
    """Whether a transform takes a generator, as `rng` or as a second argument that it needs; and how it is called."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function in C, such as numpy.sqrt
        return False, lambda x, rng: function(x)

    def takes(*arguments: Any, **named: Any) -> bool:
        try:
            signature.bind(*arguments, **named)
            return True
        except TypeError:
            return False

    if "rng" in signature.parameters and takes(0, rng=0):
        return True, lambda x, rng: function(x, rng=rng)
    if takes(0):
        return False, lambda x, rng: function(x)
    if takes(0, 0):
        return True, function
    raise UsageError(f"expected a function of x, or of x and rng, as a transform, found {signature}; give the other "
                     "parameters values by functools.partial")


def _add_transform(context: Context, function: Callable[..., Any]) -> str:
    """f(x) is kept in evaluation; f(x, rng) is random, and evaluation leaves it out."""
    name = f"python_{len(context.kept)}"
    context.functions = True
    (random, apply_to), calls = _call_of(function), context.calls

    @ffi.callback("void(hd_custom_transform_call const *)", onerror=calls.escaped)
    def apply(call: Any) -> None:
        try:
            shape = (call.channels, call.height, call.width)
            x = np.frombuffer(ffi.buffer(call.image, 4 * shape[0] * shape[1] * shape[2]), np.float32).reshape(shape)
            y = apply_to(x, _generator(call.random) if random else None)
            if y is not None and y is not x:
                y = _arrays.as_numpy(y, "a transform's result")
                if y.shape != x.shape:
                    raise ShapeError(f"expected {x.shape} from a transform, as its x, found {y.shape}; reshape it")
                x[...] = y
        except BaseException as error:  # pylint: disable=broad-except
            calls.caught(error)
            calls.stop()

    c_name = ffi.new("char[]", name.encode())
    custom = ffi.new("hd_custom_transform *", {"struct_bytes": ffi.sizeof("hd_custom_transform"), "name": c_name,
                                               "random": random, "apply": apply})
    context.kept += [apply, c_name]
    context.check(lib.hd_transform_add(context.pointer, custom))
    return name


def _generator(words: Any) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=words[0] | words[1] << 32, counter=words[2] | words[3] << 32))
