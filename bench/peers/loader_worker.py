"""PyTorch's DataLoader as a peer: see loaders.py. usage: loader_worker.py FOLDER_OF_MNIST THREADS

    {"do": "make", "folder": F, "count": N, "side": S}   a folder of class folders of JPEG pictures, always the same
    {"do": "open", "work": W, "folder": F}               -> {"settings": [...]}
    {"do": "rate", "setting": S, "workers": N, "seconds": T} -> {"samples_per_s": R}

A sample is read, converted to float32 and normalised; a batch is collated and summed. Workers live across epochs, and
their start is not in a time.
"""
import os
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from peer_work import read_idx, serve

try:
    import PIL
    from PIL import Image
except ImportError:
    PIL = None
try:
    import torchvision
    from torchvision.io import decode_jpeg, read_file
except (ImportError, RuntimeError):
    torchvision = None

THREADS, BATCH, CLASSES = int(sys.argv[2]), 64, 10
state = {"loaders": {}}


class Mnist(Dataset):
    """A sample at a time, as data sets are written."""

    def __init__(self, folder):
        self.x = torch.from_numpy(read_idx(folder, "train-images-idx3-ubyte").copy())
        self.y = torch.from_numpy(read_idx(folder, "train-labels-idx1-ubyte").astype(np.int64))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i].unsqueeze(0).float().div_(255).sub_(0.1307).div_(0.3081), self.y[i]


class MnistBatches(Mnist):
    """A batch at a time: what PyTorch's fetchers ask for where a data set has it, and nothing is left to collate."""

    def __getitems__(self, chosen):
        chosen = torch.tensor(chosen)
        return self.x[chosen].unsqueeze(1).float().div_(255).sub_(0.1307).div_(0.3081), self.y[chosen]


class Pictures(Dataset):
    """As torchvision's ImageFolder, ToTensor and Normalize do it, by Pillow or by torchvision's own decoder."""

    def __init__(self, folder, decoder):
        self.decoder = decoder
        self.mean, self.std = (torch.tensor(v).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
        self.samples = []
        for label, name in enumerate(sorted(os.listdir(folder))):
            inside = os.path.join(folder, name)
            self.samples += [(os.path.join(inside, picture), label) for picture in sorted(os.listdir(inside))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        if self.decoder == "torchvision":
            pixels = decode_jpeg(read_file(path))
        else:
            with open(path, "rb") as file:
                pixels = np.array(Image.open(file).convert("RGB"))
            pixels = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        return pixels.float().div_(255).sub_(self.mean).div_(self.std), label


def make(folder, count, side):
    """Noise in octaves, each drawn at its own size and enlarged: smooth at large scale, with detail, like a photo."""
    draw = np.random.default_rng(0)
    for i in range(count):
        pixels = np.full((side, side, 3), 128, np.float32)
        for octave, weight in ((side // 32, 60), (side // 8, 30), (side // 2, 12)):
            noise = draw.integers(0, 256, (octave, octave, 3), np.uint8)
            pixels += weight / 128 * (np.asarray(Image.fromarray(noise).resize((side, side), 3), np.float32) - 128)
        inside = os.path.join(folder, "class%d" % (i % CLASSES))
        os.makedirs(inside, exist_ok=True)
        picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        picture.save(os.path.join(inside, "%05d.jpg" % i), quality=85)
    return {}


def open_work(work, folder):
    state["loaders"].clear()
    if work == "mnist":
        state["sets"] = {"samples": Mnist(folder)}
    elif work == "mnist-batches":
        state["sets"] = {"batches": MnistBatches(folder)}
    else:
        decoders = ["Pillow"] * (PIL is not None) + ["torchvision"] * (torchvision is not None)
        state["sets"] = {d: Pictures(folder, d) for d in decoders}
    return {"settings": list(state["sets"])}


def loader(setting, workers):
    """Its batches without end; workers that run already go on."""
    if (setting, workers) not in state["loaders"]:
        state["loaders"].clear()
        more = {"persistent_workers": True} if workers else {}
        if setting == "batches":
            more["collate_fn"] = tuple
        whole = DataLoader(state["sets"][setting], BATCH, shuffle=True, num_workers=workers, **more)

        def batches():
            while True:
                yield from whole
        state["loaders"][setting, workers] = batches()
    return state["loaders"][setting, workers]


def rate(setting, workers, seconds):
    batches, samples, total = loader(setting, workers), 0, 0.0
    for _ in range(4 + 4 * workers):
        next(batches)
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        x, y = next(batches)
        samples += len(y)
        total += x.sum().item()
    return {"samples_per_s": samples / (time.perf_counter() - start), "sum": total}


torch.set_num_threads(THREADS)
with_what = ["torchvision " + torchvision.__version__] if torchvision else []
with_what += ["Pillow " + PIL.__version__] if PIL else []
serve("PyTorch %s%s" % (torch.__version__, " (%s)" % ", ".join(with_what) if with_what else ""),
      {"make": make, "open": open_work, "rate": rate})
