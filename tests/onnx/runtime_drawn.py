"""Networks drawn at random from operators that move and repeat elements: heddle computes what ONNX Runtime does, or
refuses them by a node's name.

    runtime_drawn.py READ_SCORES [COUNT [SEED]]     build/tests/onnx/read_scores; exit code 1: some differ

At least half of them must be read.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

MOST, BATCH = 4000, 2


class Drawn:
    """A graph, of whose values the shapes are known; the batch is the first axis and stays."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], []
        self.shape = [int(self.rng.integers(1, 5)) for _ in range(self.rng.integers(2, 4))]
        self.input = list(self.shape)
        self.value = self.add("Relu", ["x"])

    def add(self, op, inputs, **settings):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{len(self.nodes)}", **settings))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def numbers(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def some(self, count):
        return int(self.rng.integers(count))

    def tile(self):
        times = [1] * len(self.shape)
        times[self.some(len(times))] = 2 + self.some(2)
        self.shape = [side * n for side, n in zip(self.shape, times)]
        self.value = self.add("Tile", [self.value, self.numbers(1, *times)])

    def expand(self):
        axis = self.some(len(self.shape) + 1)
        self.value = self.add("Unsqueeze", [self.value, self.numbers(axis + 1)])
        self.shape.insert(axis, 2 + self.some(2))
        self.value = self.add("Expand", [self.value, self.numbers(1, *self.shape)])

    def repeat(self):
        """Of Keras: each element of an axis n times, by a Tile behind it; or whole copies, where it is before it."""
        axis, n = self.some(len(self.shape)), 2 + self.some(2)
        place = axis + self.some(2)
        self.value = self.add("Unsqueeze", [self.value, self.numbers(place + 1)])
        times = [1] * (len(self.shape) + 2)
        times[place + 1] = n
        self.value = self.add("Tile", [self.value, self.numbers(*times)])
        self.shape[axis] *= n
        self.value = self.add("Reshape", [self.value, self.numbers(-1, *self.shape)])

    def nearest(self):
        axis = self.some(len(self.shape))
        side = self.shape[axis]
        count = side * (1 + self.some(3)) + self.some(2) * self.some(3)
        index = np.arange(count) * side // count
        if self.some(4) == 0:
            self.rng.shuffle(index)
        self.shape[axis] = count
        self.value = self.add("Gather", [self.value, self.constant(index.astype(np.int64))], axis=axis + 1)

    def transpose(self):
        order = self.rng.permutation(len(self.shape))
        self.shape = [self.shape[i] for i in order]
        self.value = self.add("Transpose", [self.value], perm=[0, *(int(i) + 1 for i in order)])

    def reshape(self):
        elems = int(np.prod(self.shape))
        sides = []
        for _ in range(self.some(4)):
            divisors = [d for d in range(1, elems + 1) if elems % d == 0]
            sides.append(divisors[self.some(len(divisors))])
            elems //= sides[-1]
        self.shape = [*sides, elems]
        self.value = self.add("Reshape", [self.value, self.numbers(-1, *self.shape)])

    def slice(self):
        axis = self.some(len(self.shape))
        start = self.some(self.shape[axis])
        end = start + 1 + self.some(self.shape[axis] - start)
        self.shape[axis] = end - start
        self.value = self.add("Slice", [self.value, *(self.numbers(n) for n in (start, end, axis + 1))])

    def scale(self):
        """A number for each element of an axis, or of all."""
        sides = list(self.shape)
        for axis in range(len(sides)):
            sides[axis] = sides[axis] if self.some(2) else 1
        op = ("Add", "Mul", "Sub")[self.some(3)]
        number = self.rng.uniform(0.5, 1.5, sides).astype(np.float32)
        self.value = self.add(op, [self.value, self.constant(number)])

    def pair(self):
        """A value beside what it was before a transposition of equal sides, or its sum along an axis."""
        before = self.value
        if self.some(2):
            after = self.add("ReduceMean", [before], axes=[1 + self.some(len(self.shape))])
        else:
            equal = [i for i, side in enumerate(self.shape) if side == self.shape[0]]
            order = list(range(len(self.shape)))
            order[equal[0]], order[equal[-1]] = equal[-1], equal[0]
            after = self.add("Transpose", [before], perm=[0, *(i + 1 for i in order)])
            after = self.add("Sigmoid", [after])
        both = [before, after] if self.some(2) else [after, before]
        self.value = self.add(("Add", "Mul", "Sub")[self.some(3)], both)

    def reduce(self):
        axis = self.some(len(self.shape))
        if len(self.shape) > 1:
            del self.shape[axis]
            op = ("ReduceMean", "ReduceMax", "ReduceSum")[self.some(3)]
            if op == "ReduceSum":
                self.value = self.add(op, [self.value, self.numbers(axis + 1)], keepdims=0)
            else:
                self.value = self.add(op, [self.value], axes=[axis + 1], keepdims=0)

    def softmax(self):
        self.value = self.add("Softmax", [self.value], axis=1 + self.some(len(self.shape)))

    def linear(self):
        outputs = 1 + self.some(5)
        weight = self.rng.normal(size=(self.shape[-1], outputs)).astype(np.float32)
        self.shape[-1] = outputs
        self.value = self.add("MatMul", [self.value, self.constant(weight)])

    def join(self):
        axis = self.some(len(self.shape))
        self.value = self.add("Concat", [self.value, self.add("Tanh", [self.value])], axis=axis + 1)
        self.shape[axis] *= 2

    STEPS = (tile, tile, expand, repeat, repeat, nearest, transpose, transpose, reshape, reshape, slice, scale, pair,
             reduce, softmax, linear, join)

    def model(self):
        for _ in range(3 + self.some(6)):
            step = self.STEPS[self.some(len(self.STEPS))]
            if np.prod(self.shape) < MOST / 8 and len(self.shape) < 6:
                step(self)
        last = self.constant(self.rng.normal(size=(int(np.prod(self.shape)), 3)).astype(np.float32))
        flat = self.add("Flatten", [self.value], axis=1)
        self.nodes.append(helper.make_node("MatMul", [flat, last], ["y"], name="last"))
        graph = helper.make_graph(
            self.nodes, "drawn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *self.input])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judge(program, folder, seed):
    """Whether a network is read, and what is wrong with it."""
    drawn = Drawn(seed)
    model = drawn.model()
    x = drawn.rng.normal(size=(BATCH, *drawn.input)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0].ravel()
    path, samples = os.path.join(folder, "network.onnx"), os.path.join(folder, "samples")
    save(model, path)
    x.tofile(samples)
    run = subprocess.run([program, path, samples, str(BATCH)], capture_output=True)
    said = run.stderr.decode().strip()
    if run.returncode:
        return False, None if run.returncode > 0 and "node '" in said else said or f"exit code {run.returncode}"
    found = np.frombuffer(run.stdout, np.float32)
    same = found.size == wanted.size and np.allclose(found, wanted, rtol=1e-3, atol=1e-5 + 1e-3 * abs(wanted).max())
    return True, None if same else f"expected {wanted}, found {found}"


def main(program, count="150", seed="0"):
    read, wrong = 0, 0
    onnxruntime.set_default_logger_severity(3)
    with tempfile.TemporaryDirectory() as folder:
        for each in range(int(seed), int(seed) + int(count)):
            was_read, why = judge(program, folder, each)
            read += was_read
            wrong += why is not None
            if why:
                print(f"{each}: {why}")
    print(f"{count} networks, {read} read, {wrong} wrong")
    return 1 if wrong or 2 * read < int(count) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
