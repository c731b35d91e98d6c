"""Trains on arrays of the program, with a random transform in Python, and looks at the mistakes.

    python3 examples/train.py
"""
import numpy as np

import heddle

rng = np.random.default_rng(0)


def bars(count):
    """Pictures (N, 16, 16) of a bar that stands or lies, somewhere, and which of both it is: (N)."""
    images, labels = np.zeros((count, 16, 16), np.uint8), rng.integers(0, 2, count)
    for image, lies in zip(images, labels):
        top, left = rng.integers(0, 8, 2)
        height, width = (2, 8) if lies else (8, 2)
        image[top:top + height, left:left + width] = 255
    return images, labels


def speckle(image, rng):
    """Noise, in training alone."""
    image += rng.normal(0, 0.3, image.shape)


x, y = bars(2000)
x_test, y_test = bars(400)
model = heddle.Model("bars", (1, 16, 16))
model.add("conv", "conv2d", out=8, kernel=3).add("relu", "relu").add("pool", "global_avg_pool2d")
model.add("flat", "flatten").add("fc", "linear", out=2)

run = heddle.train(model, (x, y, x_test, y_test), epochs=5, lr=0.02, transforms=["to_float", speckle])
guesses = run.predict(x_test).argmax(1)
print(f"loss {run.losses[0]:.3f} to {run.losses[-1]:.3f}")
print(f"{(guesses == y_test).sum()} of {len(y_test)} are right; the confusion matrix is")
print(run.evaluate().confusion)
