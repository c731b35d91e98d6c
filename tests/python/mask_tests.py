"""A class for each pixel: y of (N, H, W); scores, losses and gradients against PyTorch in float64."""
import json
import pathlib
import shutil
import struct
import zlib

import numpy as np
from tap import Skipped, path, refuses

import heddle

rng = np.random.default_rng(3)
x = rng.integers(0, 256, (64, 3, 8, 12)).astype(np.uint8)
y = (x[:, 0] > 128).astype(np.int64) + (x[:, 1] > 200)
y[:, :2, 3] = -100  # no class
WEIGHTS = [0.5, 1, 2]
TEXT = """model: tiny
input: [3, 8, 12]
layers:
  - conv1: {op: conv2d, out: 6, kernel: 3, padding: 1}
  - tanh: {op: tanh}
  - scores: {op: conv2d, out: 3, kernel: 1}
loss: {op: cross_entropy, weight: [0.5, 1, 2]}
"""


def test_loss_and_gradients_are_those_of_pytorch():
    """loss, gradients and scores are those of PyTorch in float64"""
    try:
        import torch
        import torch.nn.functional as F
    except ImportError as missing:
        raise Skipped("no PyTorch") from missing
    lr = 0.25
    options = dict(batch=64, epochs=1, optimizer="sgd", lr=lr, no_shuffle=True, progress=False)
    heddle.train(TEXT, (x, y, x, y), max_steps=1, out=path("first"), **{**options, "lr": 1e-30})
    run = heddle.train(TEXT, (x, y, x, y), max_steps=1, out=path("second"), **options)
    before, after = heddle.load(path("first")).weights, run.weights
    mean, std = x.mean((0, 2, 3)) / 255, x.std((0, 2, 3)) / 255
    mean, std = mean.round(4), std.round(4)
    inputs = torch.tensor((x / 255 - mean[:, None, None]) / std[:, None, None])
    weight = {name: torch.tensor(np.asarray(value, np.float64), requires_grad=True) for name, value in before.items()}
    out = torch.tanh(F.conv2d(inputs, weight["conv1.weight"], weight["conv1.bias"], padding=1))
    out = F.conv2d(out, weight["scores.weight"], weight["scores.bias"])
    loss = F.cross_entropy(out, torch.tensor(y), weight=torch.tensor(WEIGHTS, dtype=torch.float64))
    loss.backward()
    assert abs(run.result["train_loss"] - loss.item()) < 1e-6 * loss.item(), (run.result["train_loss"], loss.item())
    for name, value in weight.items():
        found = (np.asarray(before[name], np.float64) - np.asarray(after[name], np.float64)) / lr
        wanted = value.grad.numpy()
        assert np.abs(found - wanted).max() < 2e-6 * max(1, np.abs(wanted).max()), name
    guess = out.argmax(1).numpy()
    evaluation = heddle.load(path("first")).evaluate((x, y, x, y))
    counted = y >= 0
    assert abs(evaluation.loss - loss.item()) < 1e-5
    assert abs(evaluation.accuracy - (guess == y)[counted].mean()) < 1e-3
    for c in range(3):
        either = ((guess == c) | (y == c)) & counted
        assert abs(evaluation.class_iou[c] - ((guess == c) & (y == c) & counted).sum() / either.sum()) < 2e-3


def test_scores_are_of_pixels():
    """accuracy, confusion and IoU count pixels, those without a class left out"""
    run = heddle.train(TEXT, (x, y), max_steps=20, lr=0.01, batch=16, out=path("scores"), progress=False)
    evaluation = run.evaluate()
    n = evaluation.confusion
    hit = np.diag(n)
    assert n.sum() == evaluation.samples * (8 * 12 - 2)
    assert np.allclose(evaluation.class_iou, hit / (n.sum(0) + n.sum(1) - hit))
    assert np.isclose(evaluation.iou, np.mean(evaluation.class_iou))
    assert np.isclose(evaluation.accuracy, hit.sum() / n.sum())
    assert run.result["test_iou"] == evaluation.iou


def test_predictions_are_classes_of_pixels():
    """predict gives the classes of pixels, those that evaluate counts"""
    run = heddle.train(TEXT, (x, y), max_steps=20, lr=0.01, batch=16, out=path("predicted"), progress=False)
    guess = run.predict(x)
    assert guess.shape == y.shape and guess.dtype == np.uint8 and guess.max() < 3
    evaluation = run.evaluate((x, y, x, y))
    counted = y >= 0
    for label, found in np.ndindex(3, 3):
        assert evaluation.confusion[label, found] == ((y == label) & (guess == found) & counted).sum()
    np.save(path("some.npy"), x[:5])
    assert (run.predict(path("some.npy")) == guess[:5]).all()
    assert run.class_names == [""] * 3


def test_masks_of_another_shape_or_kind_are_refused():
    """masks of another shape, kind or with other numbers are refused"""
    refuses(heddle.ShapeError, "found masks of 8x8", lambda: heddle.train(TEXT, (x, y[:, :, :8]), max_steps=1))
    refuses(heddle.FormatError, "found float64", lambda: heddle.train(TEXT, (x, y * 1.0), max_steps=1))
    refuses(heddle.FormatError, "found 300", lambda: heddle.train(TEXT, (x, y + 299 * (y == 1)), max_steps=1))
    refuses(heddle.ShapeError, "expected at least 4 scores", lambda: heddle.train(TEXT, (x, y + (y >= 0)), max_steps=1))
    np.savez(path("bad.npz"), x=x, y=y[:, :, :8])
    refuses(heddle.FormatError, "expected a class for each pixel of 64 pictures of 8x12",
            lambda: heddle.train(TEXT, path("bad.npz"), max_steps=1))
    np.savez(path("low.npz"), x=x, y=y - 2)
    refuses(heddle.FormatError, "255 for none, found -", lambda: heddle.train(TEXT, path("low.npz"), max_steps=1))


def _png(name, pixels, colours=0):
    """Writes grey numbers, places in a palette of so many colours, or an RGB picture."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    kind = 2 if pixels.ndim == 3 else 3 if colours else 0
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, kind, 0, 0, 0)
    palette = chunk(b"PLTE", bytes(range(3 * colours))) if colours else b""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    pathlib.Path(name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette +
                                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def _folder(name, parts=("train", "test"), colours=0):
    """A folder of the first pictures and masks of x and y: eight of each part."""
    where = pathlib.Path(path(name))
    for p, part in enumerate(parts):
        for kind in ("images", "masks"):
            (where / part / kind).mkdir(parents=True)
        for i in range(8 * p, 8 * p + 8):
            _png(where / part / "images" / f"{i:02}.png", x[i].transpose(1, 2, 0))
            _png(where / part / "masks" / f"{i:02}.png", np.where(y[i] < 0, 255, y[i]), colours)
    return where


def _train(where, name, **options):
    return heddle.train(TEXT, str(where), batch=8, lr=0.01, max_steps=2, out=path(name), progress=False, **options)


def test_places_beyond_a_palette_are_refused():
    """a place beyond a mask's palette is refused by name; 255, which is no class, is not"""
    where = _folder("palette", colours=3)
    arrays = (x[:8], y[:8], x[8:16], y[8:16])
    assert _train(where, "of palette").digest == heddle.train(TEXT, arrays, batch=8, lr=0.01, max_steps=2,
                                                              out=path("of arrays"), progress=False).digest
    wrong = np.where(y[3] < 0, 255, y[3])
    wrong[5, 7] = 202
    _png(where / "train" / "masks" / "03.png", wrong, 3)
    refuses(heddle.FormatError, "train/masks/03.png: expected places in its palette of 3 colours, or 255 for no class, "
            "found 202 in row 5, column 7", lambda: _train(where, "refused"))


def test_halves_of_sets_are_refused():
    """pictures without masks beside the training set, and masks without pictures, are refused by name"""
    for lacks, there in (("masks", "images"), ("images", "masks")):
        where = _folder(f"half of {lacks}")
        shutil.rmtree(where / "test" / lacks)
        refuses(heddle.FormatError, f"test/{there}: expected {where}/test/{lacks} beside it, found none",
                lambda: _train(where, "half"))


def test_masks_without_classes_are_refused():
    """masks of one pixel, and a set without any class, are refused by what they lack"""
    refuses(heddle.UnsupportedError, "expected masks of several pixels, found 1x1",
            lambda: heddle.train("mlp", (x[:, :, :1, :1], y[:, -1:, :1]), max_steps=1))
    refuses(heddle.FormatError, "expected pixels with a class in the test set, found 255",
            lambda: heddle.train(TEXT, (x, y, x, np.full_like(y, -100)), max_steps=1))


def test_masks_of_data_sets_are_refused():
    """masks of a data set in Python are refused, and what takes them is named"""
    class Pictures:
        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            return x[i], y[i]

    refuses(heddle.ShapeError, "found the shape (8, 12); for a class for each pixel give arrays (x, y)",
            lambda: heddle.train(TEXT, Pictures(), max_steps=1))


def test_unreadable_pairs_are_left_out():
    """with on_error='skip' a damaged picture and a damaged mask are left out: the weights are those without them"""
    for size in (None, 4):  # of one size, and of several
        where, options = _folder(f"damaged {size}"), {}
        if size:
            _png(where / "train" / "images" / "05.png", x[5, :, :4, :4].transpose(1, 2, 0))
            _png(where / "train" / "masks" / "05.png", np.where(y[5, :4, :4] < 0, 255, y[5, :4, :4]))
            options = {"transforms": "[{resize: [8, 12]}, to_float, normalise]"}
        good = pathlib.Path(path(f"good {size}"))
        shutil.copytree(where, good)
        for kind, number in (("images", "02"), ("masks", "06")):
            file = where / "train" / kind / f"{number}.png"
            file.write_bytes(file.read_bytes()[:60])
            for each in ("images", "masks"):
                (good / "train" / each / f"{number}.png").unlink()
        refuses(heddle.FormatError, "masks/06.png" if size else "images/02.png",
                lambda: _train(where, "stops", **options))
        run = _train(where, f"skips {size}", on_error="skip", **options)
        assert run.digest == _train(good, f"whole {size}", **options).digest
        assert json.loads((run.folder / "run.json").read_text())["skipped"] == {"train": 2, "test": 0}
