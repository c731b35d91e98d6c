"""What peers are given to do: the networks, the data, and how to talk to the program that measures.

A worker is one process for one library and one number of threads. It reads one JSON object a line and answers with
one:

    {"do": "open", "model": M, "batch": B, "precision": "f32" or "bf16"}
                                                -> {"settings": [...]}      every way in which it can run the model
    {"do": "rate", "setting": S, "seconds": T}  -> {"samples_per_s": R}     training, plain SGD
    {"do": "recipe", "setting": S, "seed": N}   -> {"train_s": T, "accuracy": A}

What cannot be done is answered with {"error": WHY}. Compilation and first steps are never in a time.
"""
import gzip
import json
import os
import struct
import sys

# ("conv", in, out, side), ("pool", side), ("relu",), ("flatten",), ("linear", in, out); convolutions without padding.
MODELS = {
    "simplenet": [("flatten",), ("linear", 784, 10)],
    "mlp": [("flatten",), ("linear", 784, 128), ("relu",), ("linear", 128, 10)],
    "cnn": [("conv", 1, 32, 3), ("relu",), ("pool", 2), ("conv", 32, 64, 3), ("relu",), ("pool", 2), ("flatten",),
            ("linear", 1600, 128), ("relu",), ("linear", 128, 10)],
    "fastmnist": [("conv", 1, 24, 5), ("pool", 2), ("relu",), ("conv", 24, 32, 3), ("pool", 2), ("relu",),
                  ("flatten",), ("linear", 800, 256), ("relu",), ("linear", 256, 10)],
}

RECIPE = {"batch": 256, "lr": 0.01, "steps": 235}

# Networks of texts, from the window to a score for each character; heddle's models of these names. Samples are windows.
TEXTS = {"gpt-nano": {"batch": 12, "window": 64, "channels": 128, "heads": 4, "blocks": 4},
         "gpt-baby": {"batch": 16, "window": 256, "channels": 384, "heads": 6, "blocks": 6, "dropout": 0.2},
         "char-lstm": {"batch": 50, "window": 50, "channels": 128, "layers": 2}}
CHARACTERS = 65


def is_file(model):
    """Whether a model is a file of heddle's, not one of MODELS or TEXTS."""
    return model not in MODELS and model not in TEXTS


def is_convolutional(model):
    return is_file(model) or model in MODELS and any(layer[0] == "conv" for layer in MODELS[model])


def read_idx(folder, name):
    import numpy as np
    path = os.path.join(folder, name)
    opener, path = (open, path) if os.path.exists(path) else (gzip.open, path + ".gz")
    with opener(path, "rb") as file:
        raw = file.read()
    sides = struct.unpack(">%dI" % raw[3], raw[4:4 + 4 * raw[3]])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sides)


def images(folder, part):
    """Normalised float32 images [n, 28, 28] in a random order that is always the same, and their labels."""
    import numpy as np
    pixels = read_idx(folder, part + "-images-idx3-ubyte")
    labels = read_idx(folder, part + "-labels-idx1-ubyte").astype(np.int64)
    train = pixels if part == "train" else read_idx(folder, "train-images-idx3-ubyte")
    order = np.random.default_rng(0).permutation(len(pixels))
    x = (pixels.astype(np.float32) / 255 - np.float32(train.mean() / 255)) / np.float32(train.std() / 255)
    return x[order], labels[order]


def serve(version, handlers, isa=None):
    """Answers requests until standard input ends. Libraries may print: their output goes to standard error. `isa`: the
    instruction set that the library says it uses, if it does."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"peer": version, "isa": isa}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception as why:  # whatever a library throws: the setting is left out and reported
            answer = {"error": "%s: %s" % (type(why).__name__, str(why).split("\n")[0][:200])}
        print(json.dumps(answer), file=answers)
