"""runtime_rows.py MODEL TABLE PREDICTIONS: checks that ONNX Runtime computes from the raw rows of a table what `heddle
predict --json` says of them: the same classes by name, and probabilities that differ by 1e-5 at most. The file names
the columns of its features and the classes."""
import csv
import json
import sys

import numpy
import onnx
import onnxruntime

model, table, expected = sys.argv[1:]
facts = {each.key: each.value for each in onnx.load(model).metadata_props}
facts = {key: json.loads(facts[key]) for key in ("features", "class_names")}
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
with open(table, newline="") as file:
    rows = [[float(row[feature["column"]]) for feature in facts["features"]["of"]] for row in csv.DictReader(file)]
with open(expected) as file:
    wanted = json.load(file)["predictions"]
given = session.get_inputs()[0]
shape = [side if isinstance(side, int) else len(rows) for side in given.shape]
scores = session.run(None, {given.name: numpy.array(rows, numpy.float32).reshape(shape)})[0].astype(float)
found = numpy.exp(scores - scores.max(1, keepdims=True))
found /= found.sum(1, keepdims=True)
difference = numpy.abs(found - [each["probabilities"] for each in wanted]).max()
names = [facts["class_names"][best] for best in found.argmax(1)]
if len(rows) != len(wanted) or names != [each["class_name"] for each in wanted] or difference > 1e-5:
    sys.exit(f"{model}: expected what predict says of {len(wanted)} rows, found a difference of {difference}: {names}")
print(f"{len(rows)} rows, {len(set(names))} classes, largest difference {difference:.1e}")
