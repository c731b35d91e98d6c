"""runtime_scores.py MODEL IMAGES SCORES: checks an ONNX file and compares what ONNX Runtime computes of an IDX file's
images with heddle's scores (raw floats): the same classes, and scores that differ by 1e-5 at most, relative to the
largest where that is above 1. A network of a smaller input sees the middle of the images."""
import sys

import numpy
import onnx
import onnxruntime

model, images, expected = sys.argv[1:]
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
side = session.get_inputs()[0].shape[-1]
with open(images, "rb") as file:
    pixels = numpy.frombuffer(file.read()[16:], numpy.uint8).reshape(-1, 1, 28, 28).astype(numpy.float32)
first = (28 - side) // 2
pixels = pixels[:, :, first:first + side, first:first + side]
found = session.run(["scores"], {"pixels": pixels})[0].reshape(len(pixels), -1)
wanted = numpy.fromfile(expected, numpy.float32).reshape(found.shape)
difference = numpy.abs(found - wanted).max() / max(1, numpy.abs(wanted).max())
print(f"largest difference {difference:.1e}")
if difference > 1e-5 or (found.argmax(1) != wanted.argmax(1)).any():
    sys.exit(f"{model}: expected the same classes and scores within 1e-5, found a difference of {difference}")
