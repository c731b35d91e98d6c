"""Keras's networks, with random weights, converted by tf2onnx: what heddle reads of the files must give the numbers of
ONNX Runtime.

    onnx_keras.py READ_SCORES [--markdown] [NAME ...]     build/tests/onnx/read_scores; exit code 1: some differ

With --markdown it prints a table for docs/export.md, which `make onnx-tables` puts there. Needs tensorflow, keras,
tf2onnx, onnx and onnxruntime.
"""

import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402
from keras import layers  # noqa: E402

MOST, SIDE, BATCH = 5e-6, 96, 2


def application(name, **settings):
    return lambda: getattr(keras.applications, name)(weights=None, input_shape=(SIDE, SIDE, 3), classes=10, **settings)


def sequential(shape, *parts):
    return lambda: keras.Sequential([layers.Input(shape), *(part() for part in parts)])


def tutorial():
    """The network of Keras's page on MNIST."""
    return keras.Sequential([
        layers.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten(), layers.Dropout(0.5),
        layers.Dense(10, activation="softmax")])


def unet():
    x = layers.Input((32, 32, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(layers.MaxPooling2D()(a)))
    c = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(layers.ReLU()(b))
    d = layers.UpSampling2D()(layers.Conv2D(8, 1)(b))
    return keras.Model(x, layers.Conv2D(3, 1)(layers.Concatenate()([a, c, d])))


def recurrent(part):
    return keras.Sequential([layers.Input((12, 6)), part(16, return_sequences=True), part(16), layers.Dense(4)])


def transformer():
    x = layers.Input((10, 16))
    a = layers.MultiHeadAttention(2, 8)(*[layers.LayerNormalization()(x)] * 2)
    y = layers.Add()([x, a])
    z = layers.Dense(16)(layers.Dense(32, activation="relu")(layers.LayerNormalization()(y)))
    return keras.Model(x, layers.Dense(4)(layers.GlobalAveragePooling1D()(layers.Add()([y, z]))))


NETWORKS = {
    "tutorial": tutorial,
    "mlp": lambda: keras.Sequential([layers.Input((20,)), layers.Dense(64, activation="relu"),
                                     layers.BatchNormalization(), layers.Dense(3, activation="softmax")]),
    "MobileNet": application("MobileNet", alpha=0.25),
    "MobileNetV2": application("MobileNetV2", alpha=0.35),
    "MobileNetV3Small": application("MobileNetV3Small", alpha=0.75, include_preprocessing=False),
    "ResNet50": application("ResNet50"),
    "unet": unet,
    "lstm": lambda: recurrent(layers.LSTM),
    "gru": lambda: recurrent(layers.GRU),
    "transformer": transformer,
}


def draw(model, rng):
    """Weights and statistics that no part of a graph leaves out: norms begin with ones and zeros."""
    for weight in model.weights:
        old = np.asarray(weight)
        if "variance" in weight.path or "gamma" in weight.path:
            weight.assign(rng.uniform(0.5, 1.5, old.shape))
        elif "mean" in weight.path or "beta" in weight.path or "bias" in weight.path:
            weight.assign(rng.uniform(-0.2, 0.2, old.shape))


def convert(name, path, rng):
    """The file of a network; its input's shape."""
    keras.utils.set_random_seed(1)
    model = NETWORKS[name]()
    draw(model, rng)
    shape = model.inputs[0].shape[1:]
    spec = [tf.TensorSpec((None, *shape), tf.float32, name="x")]
    call = tf.function(lambda x: model(x, training=False), input_signature=spec)
    tf2onnx.convert.from_function(call, input_signature=spec, opset=17, output_path=path)
    return shape


def apart(program, path, shape, folder, rng):
    """How far heddle's scores are from ONNX Runtime's, by the largest; or the line that the file is refused with."""
    x, samples = rng.normal(size=(BATCH, *shape)).astype(np.float32), os.path.join(folder, "samples")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {session.get_inputs()[0].name: x})[0].astype(float)
    ((x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)).tofile(samples)
    run = subprocess.run([program, path, samples, str(BATCH)], capture_output=True)
    if run.returncode:
        return run.stderr.decode().strip().replace(path + ": ", "")
    found = np.frombuffer(run.stdout, np.float32).astype(float)
    if wanted.ndim == 4:
        wanted = wanted.transpose(0, 3, 1, 2)
    elif abs(wanted.sum(1) - 1).max() < 1e-5:  # a softmax is part of heddle's loss
        e = np.exp(found.reshape(wanted.shape) - found.max())
        found = e / e.sum(1, keepdims=True)
    return abs(found.ravel() - wanted.ravel()).max() / max(1e-3, abs(wanted).max())


def main(program, *words):
    markdown, names = "--markdown" in words, [word for word in words if word != "--markdown"]
    tally, notes = {"equal": 0, "refused": 0, "wrong": 0}, []
    print("| network | apart |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or NETWORKS:
            rng, path = np.random.default_rng(2), os.path.join(folder, "net.onnx")
            shape = convert(name, path, rng)
            found = apart(program, path, shape, folder, rng)
            what = "refused" if isinstance(found, str) else "equal" if found < MOST else "wrong"
            tally[what] += 1
            print(f"| {name} | {'refused' if what == 'refused' else f'{found:.0e}'} |", flush=True)
            if what != "equal":
                notes.append(f"- {name}: {found}")
    counts = ", ".join(f"{count} {what}" for what, count in tally.items())
    print("\n".join(["", *notes, "", f"Keras {keras.__version__}, tf2onnx {tf2onnx.__version__}: {counts}."]))
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
