"""Networks drawn at random from operators that move and repeat elements, and attentions in any order of axes: heddle
computes what ONNX Runtime does, or refuses them by a node's name.

    runtime_drawn.py READ_SCORES [COUNT [SEED]]     build/tests/onnx/read_scores; exit code 1: some differ

At least half of them must be read. Every third one is an attention; where all of its sides are equal, some of its axes
are exchanged, which makes another network, or one that heddle does not have.
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
        self.attends, self.equal = seed % 3 == 2, seed % 2 == 1
        self.shape = [int(self.rng.integers(1, 5)) for _ in range(2 if self.attends else self.rng.integers(2, 4))]
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

    def beside(self):
        """Some elements beside the batch, while a layer works on the others."""
        if len(self.shape) < 2:
            return
        first, rest = self.shape[0], self.shape[1:]
        self.value = self.add("Reshape", [self.value, self.numbers(-1, *rest)])
        self.shape = rest
        step = (self.linear, self.scale, self.pair, self.norm, self.softmax, self.reduce, self.transpose)[self.some(7)]
        step()
        self.value = self.add("Reshape", [self.value, self.numbers(-1, first, *self.shape)])
        self.shape = [first, *self.shape]

    def norm(self):
        sides = self.shape[self.some(len(self.shape)):]
        both = [self.constant(self.rng.uniform(0.5, 1.5, sides).astype(np.float32)) for _ in range(2)]
        self.value = self.add("LayerNormalization", [self.value, *both], axis=-len(sides))

    STEPS = (tile, tile, expand, repeat, repeat, nearest, transpose, transpose, reshape, reshape, slice, scale, pair,
             reduce, softmax, linear, join, beside, beside, norm)

    def ordered(self, letters):
        """The letters behind the first, the batch's, in any order."""
        return letters[0] + "".join(self.rng.permutation(list(letters[1:])))

    def einsum(self, a, b, out, inputs):
        return self.add("Einsum", inputs, equation=f"{a},{b}->{out}")

    def turned(self, value, now, order):
        return self.add("Transpose", [value], perm=[now.index(c) for c in order])

    def heads(self, side):
        """x as heads by a linear layer: an Einsum with a weight, or a product, a reshape and a transposition."""
        of, letters = dict(zip("bpchw", (0, *side))), self.ordered("bhpw")
        if self.some(2):
            weight = "chw" if self.some(2) else "hwc"
            number = self.rng.normal(size=[of[c] for c in weight]).astype(np.float32)
            both = [self.value, self.constant(number)], ["bpc", weight]
            if self.some(2):
                both = both[0][::-1], both[1][::-1]
            return letters, self.einsum(*both[1], letters, both[0])
        number = self.rng.normal(size=(of["c"], of["h"] * of["w"])).astype(np.float32)
        product = self.add("MatMul", [self.value, self.constant(number)])
        parts = self.add("Reshape", [product, self.numbers(-1, of["p"], of["h"], of["w"])])
        return letters, self.turned(parts, "bphw", letters)

    def wrong(self, letters):
        """Letters of a value, or others where these would fit too."""
        return self.ordered(letters) if self.equal and self.some(8) == 0 else letters

    def attend(self):
        """An attention of some heads by Einsum or MatMul; sometimes it is none, by a softmax or an order."""
        places, channels = self.shape
        heads, width = (places, places) if self.equal else (1 + self.some(3), 1 + self.some(4))
        side = places, channels, heads, width
        q, k, v = (self.heads(side) for _ in range(3))
        (q, of_q), (k, of_k), (v, of_v) = ((letters.replace("p", p), value)
                                           for (letters, value), p in ((q, "q"), (k, "k"), (v, "k")))
        factor = np.float32((width if self.some(10) else width + 1) ** -0.5)
        stacked = self.some(3) == 0
        order = "bhqk" if stacked or self.some(2) else self.ordered("bhqk")
        if stacked:
            of_q = self.turned(of_q, self.wrong(q), "bhqw")
            of_k = self.turned(of_k, self.wrong(k), "bhwk")
            of_q = self.add("Reshape", [of_q, self.numbers(-1, places, width)])
            of_k = self.add("Reshape", [of_k, self.numbers(-1, width, places)])
            scores = self.add("MatMul", [of_q, of_k])
            scores = self.add("Reshape", [scores, self.numbers(-1, heads, places, places)])
        elif self.some(2):
            scores = self.einsum(self.wrong(q), self.wrong(k), order, [of_q, of_k])
        else:
            scores = self.einsum(self.wrong(k), self.wrong(q), order, [of_k, of_q])
        scores = self.add("Mul", [scores, self.constant(factor)])
        if self.some(3) == 0 and (self.equal or set(order[2:]) == set("qk")):
            mask = np.triu(np.full((places, places), -np.inf, np.float32), 1)
            scores = self.add("Add", [scores, self.constant(mask if self.some(6) else mask.T.copy())])
        weights = self.add("Softmax", [scores], axis=order.index("k" if self.some(8) else "q"))
        result = self.ordered("bhqw")
        if stacked:
            of_v = self.turned(of_v, self.wrong(v), "bhkw")
            of_v = self.add("Reshape", [of_v, self.numbers(-1, places, width)])
            weights = self.add("Reshape", [weights, self.numbers(-1, places, places)])
            self.value = self.add("MatMul", [weights, of_v])
            self.value = self.add("Reshape", [self.value, self.numbers(-1, heads, places, width)])
            self.value = self.turned(self.value, "bhqw", result)
        elif self.some(2):
            self.value = self.einsum(self.wrong(order), self.wrong(v), result, [weights, of_v])
        else:
            self.value = self.einsum(self.wrong(v), self.wrong(order), result, [of_v, weights])
        self.shape = [dict(zip("hqw", (heads, places, width)))[c] for c in result[1:]]

    def model(self):
        if self.attends:
            self.attend()
        for _ in range(self.some(3) if self.attends else 3 + self.some(6)):
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
