"""runtime_tokens.py MODEL FOLDER SCORES: checks an ONNX file of a text's network and compares what ONNX Runtime makes
of the windows of FOLDER/test.txt with heddle's scores (raw floats): they differ by 1e-5 at most, relative to the
largest where that is above 1. Tokens are the sorted characters of FOLDER/train.txt. Whole windows are compared."""
import sys

import numpy
import onnx
import onnxruntime

model, folder, expected = sys.argv[1:]
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
shape = session.get_inputs()[0].shape


def read(name):
    with open(f"{folder}/{name}.txt", encoding="utf-8", newline="") as file:
        return file.read()


number = {c: i for i, c in enumerate(sorted(set(read("train"))))}
tokens = numpy.array([number[c] for c in read("test")], numpy.int64)
windows = tokens[:(len(tokens) - 1) // shape[1] * shape[1]].reshape(-1, shape[1])
found = session.run(["scores"], {"tokens": windows})[0]
wanted = numpy.fromfile(expected, numpy.float32).reshape(-1, *found.shape[1:])[:len(found)]
difference = numpy.abs(found - wanted).max() / max(1, numpy.abs(wanted).max())
print(f"largest difference {difference:.1e} of {found.size:,} scores, the largest {numpy.abs(wanted).max():.2f}")
if not difference <= 1e-5 or not numpy.abs(wanted).max() > 0.1:
    sys.exit(f"{model}: expected scores within 1e-5, found a difference of {difference}")
