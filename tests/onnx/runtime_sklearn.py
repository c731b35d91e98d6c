"""Networks as scikit-learn's converter writes them: heddle gives the probabilities and targets of ONNX Runtime, or
refuses the file by name.

    runtime_sklearn.py READ_SCORES     build/tests/onnx/read_scores; exit code 1: some differ

The graphs are those of skl2onnx; where it can be imported, its own are compared, too.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FEATURES, SAMPLES, MOST = 5, 20, 1e-6
rng = np.random.default_rng(4)
ML = "ai.onnx.ml"


def scaler(given="X", to="scaled"):
    """StandardScaler, RobustScaler, MaxAbsScaler."""
    return [helper.make_node("Scaler", [given], [to], domain=ML, offset=rng.normal(size=FEATURES).tolist(),
                             scale=rng.uniform(0.1, 3, FEATURES).tolist())], {}, to


def range_scaler():
    """MinMaxScaler, which cuts what is outside of its range."""
    constants = {"by": rng.uniform(0.1, 3, FEATURES), "plus": rng.normal(size=FEATURES), "low": -1.0, "high": 1.0}
    return [helper.make_node("Cast", ["X"], ["as_float"], to=1),
            helper.make_node("Mul", ["as_float", "by"], ["scaled"]),
            helper.make_node("Add", ["scaled", "plus"], ["shifted"]),
            helper.make_node("Clip", ["shifted", "low", "high"], ["clipped"])], constants, "clipped"


def layers(given, sizes, activation, last):
    """The layers of a multi-layer perceptron; the name of what they end with."""
    nodes, constants = [helper.make_node("Cast", [given], ["cast_input"], to=1)], {}
    before = "cast_input"
    for i, size in enumerate(sizes):
        constants[f"coefficient{i}"] = rng.normal(size=(FEATURES if i == 0 else sizes[i - 1], size))
        constants[f"intercepts{i}"] = rng.normal(size=(1, size))
        after = activation if i + 1 < len(sizes) else last
        nodes += [helper.make_node("MatMul", [before, f"coefficient{i}"], [f"product{i}"]),
                  helper.make_node("Add", [f"product{i}", f"intercepts{i}"], [f"sum{i}"]),
                  helper.make_node(after, [f"sum{i}"], [f"out{i}"])]
        before = f"out{i}"
    return nodes, constants, before


def labels(probabilities, names):
    """The label of the largest probability."""
    texts = isinstance(names[0], str)
    nodes = [helper.make_node("ArgMax", [probabilities], ["argmax"], axis=1),
             helper.make_node("ArrayFeatureExtractor", ["classes", "argmax"], ["extracted"], domain=ML),
             helper.make_node("Reshape", ["extracted", "shape_tensor"], ["reshaped"]),
             helper.make_node("Identity" if texts else "Cast", ["reshaped"], ["label"], **({} if texts else {"to": 7}))]
    kind = np.array(names, object if texts else np.int32)
    return nodes, {"classes": kind, "shape_tensor": np.array([-1])}


def model(parts, outputs, kind=TensorProto.FLOAT, opset=17):
    """A file of nodes and constants; outputs: a name and an element type each, 0 for a ZipMap's list."""
    nodes = [node for part, *_ in parts for node in part]
    constants = {name: value for _, some, *_ in parts for name, value in some.items()}
    made = [numpy_helper.from_array(np.asarray(value, np.float32) if np.asarray(value).dtype == np.float64 else
                                    np.asarray(value), name) for name, value in constants.items()]
    infos = [helper.make_tensor_value_info(name, each, None) if each else helper.make_empty_tensor_value_info(name)
             for name, each in outputs]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("X", kind, [None, FEATURES])], infos, made)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset),
                                                                 helper.make_opsetid(ML, 1)])


def classifier(names, first=None, kind=TensorProto.FLOAT, zipmap=False, only=None, opset=17, activation="Relu"):
    start = first or ([], {}, "X")
    body = layers(start[2], [8, 1 if len(names) == 2 else len(names)], activation,
                  "Sigmoid" if len(names) == 2 else "Softmax")
    end, constants, p = [], {}, body[2]
    if len(names) == 2:
        constants["unity"] = np.float32(1)
        end = [helper.make_node("Sub", ["unity", p], ["negative"]),
               helper.make_node("Concat", ["negative", p], ["probabilities"], axis=1)]
    else:
        end = [helper.make_node("Identity", [p], ["probabilities"])]
    nodes, more = labels("probabilities", names)
    outputs = [("label", TensorProto.STRING if isinstance(names[0], str) else TensorProto.INT64),
               ("probabilities", TensorProto.FLOAT)]
    if zipmap:
        key = "classlabels_strings" if isinstance(names[0], str) else "classlabels_int64s"
        nodes.append(helper.make_node("ZipMap", ["probabilities"], ["map"], domain=ML, **{key: names}))
        outputs[1] = ("map", 0)
    return model([start, body, (end, constants), (nodes, more)], [outputs[only]] if only is not None else outputs, kind,
                 opset)


def several_labels():
    body = layers("X", [8, 3], "Tanh", "Sigmoid")
    end = [helper.make_node("Identity", [body[2]], ["probabilities"]),
           helper.make_node("Binarizer", [body[2]], ["binary"], domain=ML, threshold=0.5),
           helper.make_node("Cast", ["binary"], ["label"], to=7)]
    return model([body, (end, {})], [("label", TensorProto.INT64), ("probabilities", TensorProto.FLOAT)])


def regressor(targets, first=None):
    start = first or ([], {}, "X")
    body = layers(start[2], [8, 4, targets], "Relu", "Identity")
    end = [helper.make_node("Reshape", [body[2], "column"], ["variable"])]
    return model([start, body, (end, {"column": np.array([-1, 1])})], [("variable", TensorProto.FLOAT)])


def turned(network, kind, **settings):
    """The network with another operator, or other attributes, in place of the first of its kind."""
    for node in network.graph.node:
        if node.op_type == kind:
            del node.attribute[:]
            node.attribute.extend(helper.make_attribute(name, value) for name, value in settings.items()
                                  if name != "op" and name != "domain")
            node.op_type, node.domain = settings.get("op", kind), settings.get("domain", node.domain)
            break
    return network


def two_networks():
    network = classifier([0, 1, 2])
    network.graph.output[1].name = "out0"
    return network


def late_scaler():
    body = layers("X", [FEATURES, FEATURES], "Relu", "Identity")
    late = scaler(body[2], "variable")
    return model([body, late], [("variable", TensorProto.FLOAT)])


NETWORKS = [
    ("a classifier", "", classifier([0, 1, 2])),
    ("logistic", "", classifier([0, 1, 2], activation="Sigmoid")),
    ("with names of classes", "", classifier(["a", "b", "c"])),
    ("behind a StandardScaler", "", classifier([0, 1, 2], scaler())),
    ("behind a MinMaxScaler", "", classifier([0, 1, 2], range_scaler())),
    ("a list of probabilities", "", classifier([3, 5, 9], zipmap=True)),
    ("a list by names", "", classifier(["a", "b", "c"], scaler(), zipmap=True)),
    ("two classes", "", classifier([0, 1], scaler())),
    ("two classes, a list", "", classifier([0, 1], zipmap=True, activation="Tanh")),
    ("two classes, probabilities alone", "", classifier([0, 1], only=1)),
    ("probabilities alone", "", classifier([0, 1, 2], only=1)),
    ("opset 11", "", classifier([0, 1, 2], opset=11)),
    ("rows of doubles", "", classifier([0, 1, 2], kind=TensorProto.DOUBLE)),
    ("rows of whole numbers", "", classifier([0, 1, 2], kind=TensorProto.INT64)),
    ("doubles to scale", "", classifier([0, 1, 2], scaler(), kind=TensorProto.DOUBLE)),
    ("several labels a sample", "", several_labels()),
    ("a regressor", "", regressor(1)),
    ("a regressor behind a StandardScaler", "", regressor(1, scaler())),
    ("a regressor of three targets", "", regressor(3)),
    ("a Scaler behind a layer", "Scaler", late_scaler()),
    ("a Normalizer", "Normalizer", turned(classifier([0, 1, 2], scaler()), "Scaler", op="Normalizer", norm="L2")),
    ("outputs of two values", "labels and probabilities of the same scores", two_networks()),
    ("the largest of all samples", "one output", turned(classifier([0, 1, 2]), "ArgMax", axis=0)),
]


def own():
    """Those of the converter itself, if it is there."""
    try:
        from skl2onnx import to_onnx
        from sklearn.neural_network import MLPClassifier, MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
    except ImportError:
        return
    x = (rng.normal(size=(200, FEATURES)) * [1, 2, 3, 4, 5]).astype(np.float32)
    value = x[:, 0] + x[:, 1] * 0.5
    kinds = {"two": (value > 0).astype(int), "three": np.digitize(value, [-1, 1]),
             "names": np.array(["no", "some", "yes"])[np.digitize(value, [-1, 1])]}
    scales = MinMaxScaler((-1, 1)), MinMaxScaler(clip=True), RobustScaler(), MaxAbsScaler()
    for scale in (None, StandardScaler(), *scales):
        for name, y in kinds.items():
            for activation in ("relu", "tanh", "logistic", "identity"):
                last = MLPClassifier((7, 4), activation=activation, max_iter=5).fit(x, y)
                net = make_pipeline(scale, last).fit(x, y) if scale else last
                for zipmap in (True, False):
                    yield (f"{name}, {activation}, {scale}, zipmap {zipmap}", "",
                           to_onnx(net, x[:1], options={id(last): {"zipmap": zipmap}}))
        for y in (value, np.stack([value, -2 * value], 1)):
            net = MLPRegressor(hidden_layer_sizes=(7,), max_iter=5).fit(x, y)
            net = make_pipeline(scale, net).fit(x, y) if scale else net
            yield f"regression of {y.shape}, {scale}", "", to_onnx(net, x[:1])


def probabilities(scores, wanted):
    """What scores mean: a softmax, or sigmoids; targets are scores."""
    if wanted.shape[1] == 2 and scores.shape[1] == 1:
        one = 1 / (1 + np.exp(-scores))
        return np.concatenate([1 - one, one], 1)
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def outcome(network, x):
    """ONNX Runtime's probabilities, or targets, and whether they are the first."""
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    kind = {"tensor(double)": np.float64, "tensor(int64)": np.int64}.get(session.get_inputs()[0].type, np.float32)
    found = session.run(None, {"X": x.astype(kind)})[-1]
    if isinstance(found, list):
        found = [list(each.values()) for each in found]
    return np.asarray(found, float)


def compare(program, folder, words, network):
    """What is wrong with a network; None: nothing is."""
    x = (rng.normal(size=(SAMPLES, FEATURES)) * 3).astype(np.float32)
    if network.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64:
        x = np.round(x)
    path, samples = os.path.join(folder, "network.onnx"), os.path.join(folder, "samples")
    with open(path, "wb") as to:
        to.write(network.SerializeToString())
    x.tofile(samples)
    run = subprocess.run([program, path, samples, str(SAMPLES)], capture_output=True,
                         env={**os.environ, "HD_VERBOSE": "1"})
    said = run.stderr.decode().strip()
    if run.returncode or words:
        expected = run.returncode and words and words in said
        return None if expected else f"expected a refusal of '{words}', found '{said}'"
    wanted = outcome(network, x)
    scores = np.frombuffer(run.stdout, np.float32).astype(float).reshape(SAMPLES, -1)
    single = 'loss: "bce_with_logits"' in said
    if len(network.graph.output) == 1 and network.graph.output[0].name == "variable":
        found, wanted = scores.ravel(), wanted.ravel()
        wanted, found = wanted / max(1, abs(wanted).max()), found / max(1, abs(wanted).max())
    elif single and scores.shape == wanted.shape:
        found = 1 / (1 + np.exp(-scores))
    else:
        found = probabilities(scores, wanted)
        if single != (wanted.shape[1] == 2):
            return f"expected bce_with_logits for two classes alone, found {said}"
    apart = abs(found - wanted).max() if found.shape == wanted.shape else np.inf
    return None if apart < MOST else f"{apart:.1e} apart"


def train_by_names(folder):
    """What is wrong with training on a table whose classes have names; "": nothing is."""
    with open(os.path.join(folder, "names.onnx"), "wb") as to:
        to.write(classifier(["a", "b", "c"]).SerializeToString())
    said = []
    for names in ("abc", "ac", "xyz"):
        table = os.path.join(folder, f"{names}.csv")
        with open(table, "w", encoding="ascii") as to:
            to.write("v,w,x,y,z,class\n")
            for i in range(60):
                print(*np.round(rng.normal(size=FEATURES), 3), names[i % len(names)], sep=",", file=to)
        run = subprocess.run([os.environ["HEDDLE"], "train", "--model", os.path.join(folder, "names.onnx"), "--data",
                              table, "--max-steps", "2", "--batch", "16", "--out", os.path.join(folder, names)],
                             capture_output=True, text=True)
        said.append("" if run.returncode == 0 else run.stderr)
    good = not said[0] and "expected 'c' as the class 2 of" in said[1] and not said[2]
    return "" if good else f"classes by their names: {said}"


def main(program):
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        if why := train_by_names(folder):
            print(why)
            wrong += 1
        for name, words, network in [*NETWORKS, *own()]:
            why = compare(program, folder, words, network)
            count += 1
            wrong += why is not None
            if why:
                print(f"{name}: {why}")
    print(f"{count} networks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
