"""What heddle computes from constants alone is what ONNX Runtime computes, in the types that the file has.

    onnx_constants.py READ_SCORES [COUNT [SEED]]     build/tests/onnx/read_scores; exit code 1: some differ

Each network adds a constant to zeros; random operators compute it from others, of random types and shapes. What heddle
does not compute it refuses; a network that ONNX Runtime refuses is none.
"""

import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

REALS = [np.float32, np.float32, np.float16, np.float64]
WHOLES = [np.int64, np.int64, np.int32, np.uint8, np.int8]
CODE = {np.dtype(each): helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in REALS + WHOLES + [np.bool_]}
SHAPES = [(), (1,), (3,), (2, 1), (1, 3), (2, 3), (2, 2, 3)]
SAME = ["Add", "Sub", "Mul", "Div", "Min", "Max"]
OF_REALS = ["Sqrt", "Exp", "Log", "Reciprocal", "Floor", "Ceil", "Neg", "Abs"]
DECIDE = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]


class Network:
    """Nodes so far; a value is its name, its type and its shape."""

    def __init__(self, rng):
        self.rng, self.nodes, self.initializers, self.names = rng, [], [], 0

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def constant(self, array):
        name = self.name()
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name, np.asarray(array).dtype.type, np.asarray(array).shape

    def put(self, op, inputs, dtype, shape, **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(op, [each[0] for each in inputs], [name], **attributes))
        return name, dtype, shape

    def list_of(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def leaf(self, dtype, shape):
        count = int(np.prod(shape))
        if dtype is np.bool_:
            return self.constant(np.array([self.rng.random() < 0.5 for _ in range(count)]).reshape(shape))
        if dtype in REALS:
            some = [self.rng.uniform(-4, 4), self.rng.randint(-3, 9), 2.5, 1 / 3, 7e4]
            numbers = [self.rng.choice(some) for _ in range(count)]
        else:
            numbers = [self.rng.choice([0, 1, 2, 3, 5, 7, 10, 100]) for _ in range(count)]
        return self.constant(np.array(numbers).astype(dtype).reshape(shape))

    def cast(self, dtype, shape, depth):
        value = self.value(self.rng.choice(REALS + WHOLES + [np.bool_]), shape, depth)
        return self.put("Cast", [value], dtype, shape, to=CODE[np.dtype(dtype)])

    def parts(self, shape):
        """Two shapes that spread to this one."""
        small = tuple(side if self.rng.random() < 0.6 else 1 for side in shape)[self.rng.randint(0, len(shape)) :]
        pair = [shape, small]
        self.rng.shuffle(pair)
        return pair

    def pair(self, op, takes, dtype, shape, depth):
        return self.put(op, [self.value(takes, part, depth) for part in self.parts(shape)], dtype, shape)

    def moved(self, dtype, shape, depth):
        """The value of an operator that computes nothing."""
        choice = self.rng.randrange(9)
        if choice == 0:
            return self.put("Identity", [self.value(dtype, shape, depth)], dtype, shape)
        if choice == 1:
            count = int(np.prod(shape))
            value = self.value(dtype, (count,), depth)
            return self.put("Reshape", [value, self.list_of(*shape)], dtype, shape)
        if choice == 2 and shape:
            value = self.value(dtype, shape[::-1], depth)
            return self.put("Transpose", [value], dtype, shape)
        if choice == 3:
            value = self.value(dtype, shape + (1,), depth)
            return self.put("Squeeze", [value, self.list_of(-1)], dtype, shape)
        if choice == 4 and 1 in shape:
            at = shape.index(1)
            value = self.value(dtype, shape[:at] + shape[at + 1 :], depth)
            return self.put("Unsqueeze", [value, self.list_of(at)], dtype, shape)
        if choice == 5 and shape:
            value = self.value(dtype, tuple(1 if self.rng.random() < 0.5 else side for side in shape), depth)
            return self.put("Expand", [value, self.list_of(*shape)], dtype, shape)
        if choice == 6 and shape:
            value = self.value(dtype, (shape[0] + 2,) + shape[1:], depth)
            limits = [self.list_of(1), self.list_of(shape[0] + 1), self.list_of(0)]
            return self.put("Slice", [value] + limits, dtype, shape)
        if choice == 7 and shape and shape[0] > 1:
            parts = [self.value(dtype, (side,) + shape[1:], depth) for side in (1, shape[0] - 1)]
            return self.put("Concat", parts, dtype, shape, axis=0)
        if choice == 8:
            value = self.value(dtype, (3,) + shape, depth)
            index = self.constant(np.array(self.rng.choice([0, 2, -1]), np.int64))
            return self.put("Gather", [value, index], dtype, shape, axis=0)
        return self.leaf(dtype, shape)

    def value(self, dtype, shape, depth):
        roll = self.rng.random()
        depth -= 1
        if depth < 0:
            return self.leaf(dtype, shape)
        if roll < 0.25:
            return self.cast(dtype, shape, depth)
        if roll < 0.4 or dtype is np.float16:  # ONNX Runtime computes several of these operators in float32
            return self.moved(dtype, shape, depth)
        if roll < 0.5:
            parts = zip((np.bool_, dtype, dtype), self.parts(shape) + [()])
            return self.put("Where", [self.value(each, part, depth) for each, part in parts], dtype, shape)
        if dtype is np.bool_:
            if roll < 0.6:
                return self.put("Not", [self.value(np.bool_, shape, depth)], dtype, shape)
            if roll < 0.75:
                return self.pair(self.rng.choice(["And", "Or"]), np.bool_, dtype, shape, depth)
            return self.pair(self.rng.choice(DECIDE), self.rng.choice(REALS + WHOLES), dtype, shape, depth)
        if roll < 0.6:
            first, second = self.parts(shape)
            base = self.value(dtype, first, depth)
            power = self.rng.choice([each for each in REALS + WHOLES if each is not np.float16])
            return self.put("Pow", [base, self.value(power, second, depth)], dtype, shape)
        if roll < 0.75 and dtype in REALS:
            return self.put(self.rng.choice(OF_REALS), [self.value(dtype, shape, depth)], dtype, shape)
        if roll < 0.8 and shape == (3,):
            start, step = self.rng.randint(0, 5), self.rng.choice([1, 2, 3])
            limits = [self.constant(np.array(each, dtype)) for each in (start, start + 3 * step, step)]
            return self.put("Range", limits, dtype, shape)
        return self.pair(self.rng.choice(SAME), dtype, dtype, shape, depth)


def made(seed):
    rng = random.Random(seed)
    network = Network(rng)
    shape = rng.choice(SHAPES)
    count = max(2, int(np.prod(shape)))
    value = network.value(np.float32, shape, rng.randint(1, 5))
    value = network.put("Reshape", [value, network.list_of(-1)], np.float32, None)
    diagonal = network.constant(np.eye(count, dtype=np.float32))
    product = network.put("MatMul", [("x",), diagonal], np.float32, None)
    network.nodes.append(helper.make_node("Add", [product[0], value[0]], ["y"]))
    graph = helper.make_graph(
        network.nodes,
        "constants",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", count])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", count])],
        network.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), count


def wanted_of(model, count):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": np.zeros((1, count), np.float32)})[0].ravel()
    except Exception:  # ONNX Runtime has classes of its own for each kind of refusal
        return None


def main(program, count="150", first="0"):
    equal = refused = wrong = 0
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        path, samples = os.path.join(folder, "constants.onnx"), os.path.join(folder, "samples")
        for seed in range(int(first), int(first) + int(count)):
            model, elems = made(seed)
            wanted = wanted_of(model, elems)
            if wanted is None:
                continue
            save(model, path)
            np.zeros(elems, np.float32).tofile(samples)
            run = subprocess.run([program, path, samples, "1"], capture_output=True)
            if run.returncode:
                refused += 1
                continue
            found = np.frombuffer(run.stdout, np.float32)
            if found.size == wanted.size and np.allclose(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True):
                equal += 1
                continue
            wrong += 1
            print(f"seed {seed}: expected {wanted}, found {found}")
    print(f"{equal} equal, {refused} refused, {wrong} wrong")
    return 1 if wrong or equal < refused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
