"""Networks that look like a usual form and differ from it in a shape or a type: heddle computes what ONNX Runtime does,
or refuses them.

    runtime_lookalikes.py READ_SCORES     build/tests/onnx/read_scores; exit code 1: some differ

Each is its name, what heddle's refusal says ("": it reads the network), the batch, the graph, and the opset, mostly 18.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, parser, save

GROUPED = """
a = Relu(x) b = Reshape(a, to) c = InstanceNormalization(b, one, zero) d = Reshape(c, back)
e = Mul(d, w) g = Add(e, s) y = Flatten(g)
"""
GROUPS = """(float[N,4,4,4] x) => (float[N,64] y)
<float[2] one = {1, 1}, float[2] zero = {0, 0}, int64[4] back = {0, 4, 4, 4}, int64[3] to = {0, 2, -1},"""
OF_COLUMNS = "float[4] w = {1, -2, 0.5, 3}, float[4] s = {1, 2, 3, 4}"
OF_CHANNELS = "float[4,1,1] w = {1, -2, 0.5, 3}, float[4,1,1] s = {1, 2, 3, 4}"
IMAGE = "(float[N,1,4,4] x) => (float[N,16] y) <"
MATRIX = "float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}"
ROW = "(float[N,4] x) => (float[N,4] y) <int64 i = {2}, " + MATRIX + ">{a = Relu(x) f = Cast <to = 1> (i) c = Sqrt(f)"
PRODUCT = "(float[3,4] x) => (float[1,12] y) <" + MATRIX + ", float[1,1,"


NORM = IMAGE + "float[1] w = {2}, float[1] b = {0.5}>{OUTPUTS = BatchNormalization(x, w, b, b, w) y = Flatten(a)}"


def recurrent(op, settings="", inputs="t, w, r, b", more="", outputs="a", end=""):
    """A recurrent layer of 4 steps, 2 channels and 3 states."""
    gates = 4 if op == "LSTM" else 3
    sides = {"w": (1, 3 * gates, 2), "r": (1, 3 * gates, 3), "b": (1, 6 * gates)}
    weights = ", ".join(
        f"float{list(side)} {name} = {{{', '.join(str(n * 37 % 19 / 10 - 0.9) for n in range(np.prod(side)))}}}"
        for name, side in sides.items()
    )
    end = end or "s = Squeeze(a, one) z = Transpose <perm = [1, 0, 2]> (s) y = Flatten(z)"
    return (
        f"(float[N,4,2] x) => (float[N,{3 if 'h' in outputs or 'c' in outputs else 12}] y) <{weights}, "
        f"int64[1] one = {{1}}, int64[1] zero = {{0}}{more}>{{t = Transpose <perm = [1, 0, 2]> (x) "
        f"{outputs} = {op} <hidden_size = 3{settings}> ({inputs}) {end}}}"
    )


ZEROS = ", float[1,3,3] i = {" + ", ".join("0" * 9) + "}"
RESET = ", linear_before_reset = 1"
LAST = "s = Squeeze(h, zero) y = Flatten(s)"


def floats(name, shape, numbers):
    return f"float[{shape}] {name} = {{{', '.join(f'{float(each):.9g}' for each in np.ravel(numbers))}}}"


def drawn(name, rows, columns):
    return floats(name, f"{rows},{columns}", np.random.default_rng(rows * columns).normal(size=(rows, columns)))


def ends(**places):
    return ", ".join(f"int64[1] {name} = {{{place}}}" for name, place in places.items())


# Queries and keys of one head each behind a rotary, and values, of two places, which are as many as the heads.
ANGLES = np.outer([0, 1], [1, 0.01, 1, 0.01])
ROTARY = f"(float[N,2,12] x) => (float[N,24] y) <{drawn('w', 12, 12)}, "
ROTARY += f"{ends(a0=0, a2=2, a4=4, a8=8, a12=12, last=-1)}, "
ROTARY += "int64[4] heads = {0, 0, 2, 4}, int64[3] whole = {0, 0, 8}, "
TURN = """>{a = MatMul(x, w) t = Slice(a, a0, a8, last) v = Slice(a, a8, a12, last) h = Reshape(t, heads)
h1 = Slice(h, a0, a2, last) h2 = Slice(h, a2, a4, last) m = Neg(h2) n = Concat <axis = -1> (m, h1)
c = Mul(h, cosine) s = Mul(n, sine) r = Add(c, s) f = Reshape(r, whole) o = Concat <axis = -1> (f, v) y = Flatten(o)}"""


def rotary(shape):
    return ROTARY + floats("cosine", shape, np.cos(ANGLES)) + ", " + floats("sine", shape, np.sin(ANGLES)) + TURN


def masked(factor, mask):
    """Attention of one head; `factor`, `mask`: shapes."""
    causal = [0, -1e9, 0, 0]
    return (f"(float[2,2,4] x) => (float[R,S] y) <{drawn('wq', 4, 4)}, {drawn('wk', 4, 4)}, {drawn('wv', 4, 4)}, "
            + floats("half", factor, [0.5]) + ", " + floats("mask", mask, causal) + ">{q = MatMul(x, wq)"
            "k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t)"
            "f = Mul(s, half) m = Add(f, mask) p = Softmax <axis = -1> (m) o = MatMul(p, v) y = Flatten(o)}")


def attending(softmax="<axis = -1>", keys="1", scores="0.5", weights="", of="p", numbers=""):
    """Attention of one head over three places; `keys`, `scores`: factors, of keys before they are transposed;
    `weights`: what computes those of values, `of`, from the softmax p and more `numbers`."""
    return (f"(float[N,3,4] x) => (float[N,12] y) <{drawn('wq', 4, 4)}, {drawn('wk', 4, 4)}, {drawn('wv', 4, 4)}, "
            f"float f = {{{keys}}}, float g = {{{scores}}}{numbers}>{{q = MatMul(x, wq) k = MatMul(x, wk)"
            f"v = MatMul(x, wv) l = Mul(k, f) t = Transpose <perm = [0, 2, 1]> (l) s = MatMul(q, t) m = Mul(s, g)"
            f"p = Softmax {softmax} (m) {weights} o = MatMul({of}, v) y = Flatten(o)}}")


def two_heads(first):
    """Attention of two heads, of queries, keys and values that one product makes; `first`: of the reshapes."""
    parts = "".join(f"{p} = Slice(a, {i}, {j}, last) {p}1 = Reshape({p}, heads)"
                    f"{p}2 = Transpose <perm = [{turn}]> ({p}1) "
                    for p, i, j, turn in (("q", "a0", "a4", "0, 2, 1, 3"), ("k", "a4", "a8", "0, 2, 3, 1"),
                                          ("v", "a8", "a12", "0, 2, 1, 3")))
    return (f"(float[N,2,4] x) => (float[R,S] y) <{drawn('w', 4, 12)}, {ends(a0=0, a4=4, a8=8, a12=12, last=-1)}, "
            f"int64[4] heads = {{{first}, 2, 2}}, float root = {{0.70710678}}>{{a = MatMul(x, w) {parts}"
            "s = MatMul(q2, k2) f = Mul(s, root) p = Softmax <axis = -1> (f) o = MatMul(p, v2)"
            "b = Transpose <perm = [0, 2, 1, 3]> (o) y = Flatten(b)}")


def reshaped(batch, to):
    return (f"(float[{batch},1,4,4] x) => (float[R,S] y) <float[1,1,1,1] k = {{2}}, int64[2] to = {{{to}}}>"
            "{a = Conv(x, k) y = Reshape(a, to)}")


NETWORKS = [
    ("an lstm", "", 3, recurrent("LSTM")),
    ("a gru without biases", "", 3, recurrent("GRU", RESET, "t, w, r")),
    ("the last state of an lstm", "", 3, recurrent("LSTM", outputs="a, h", end=LAST)),
    ("the last state of a gru alone", "", 3, recurrent("GRU", RESET, outputs=", h", end=LAST)),
    ("a state that begins with zeros", "", 3, recurrent("LSTM", "", "t, w, r, b, , i, i", ZEROS)),
    ("one that does not", "begin with zeros", 3, recurrent("GRU", RESET, "t, w, r, b, , i", ZEROS.replace("0,", "1,"))),
    ("the cell of the last step", "the cell", 3, recurrent("LSTM", outputs="a, h, c", end=LAST.replace("h", "c", 1))),
    ("a gru that resets the state itself", "linear_before_reset", 3, recurrent("GRU")),
    ("an lstm from the end", "direction forward, found reverse", 3, recurrent("LSTM", ', direction = "reverse"')),
    ("activations", "activations", 3, recurrent("LSTM", ', activations = ["Sigmoid", "Relu", "Tanh"]')),
    ("the usual activations", "", 3, recurrent("GRU", RESET + ', activations = ["Sigmoid", "Tanh"]')),
    ("bounded gates", "clip", 3, recurrent("LSTM", ", clip = 0.5")),
    ("peepholes", "peepholes", 3,
     recurrent("LSTM", "", "t, w, r, b, , , , p", ", float[1,9] p = {" + ", ".join("1" * 9) + "}")),
    ("lengths", "sequence_lens", 3, recurrent("GRU", RESET, "t, w, r, b, n", ", int32[3] n = {4, 2, 3}")),
    ("two layers of one weight", "weights of its own", 3,
     recurrent("LSTM", end="s = Squeeze(a, one) k = LSTM <hidden_size = 3> (t, w, r) l = Squeeze(k, one) m = Add(s, l) "
               "z = Transpose <perm = [1, 0, 2]> (m) y = Flatten(z)")),
    ("a rotary", "", 3, rotary("2,1,4")),
    ("a rotary of one sample", "", 3, rotary("1,2,1,4")),
    ("a rotary by heads", "the same for all heads", 3, rotary("2,4")),
    ("a rotary by samples", "the same for all heads", 2, rotary("2,1,1,4").replace("N,", "2,")),
    ("a causal attention", "", 2, masked("1", "2,2")),
    ("a causal attention of one mask a sample", "", 2, masked("1", "1,2,2")),
    ("a mask of more dimensions than the scores", "at most 3 dimensions", 2, masked("1", "1,1,2,2")),
    ("a factor of more dimensions than the scores", "at most 3 dimensions", 2, masked("1,1,1,1", "2,2")),
    ("an attention by the number of its last axis", "", 3, attending("<axis = 2>")),
    ("a softmax over queries", "of one shape", 3, attending("<axis = 1>")),
    ("an old softmax over all scores", "over the keys", 3, attending(""), 11),
    ("an old softmax over keys", "", 3, attending("<axis = 2>"), 11),
    ("a factor of keys before their transposition", "", 3, attending(keys="0.5", scores="1")),
    ("two factors of which one is before it", "", 3, attending(keys="0.25", scores="2")),
    ("a factor that is none of 1 / sqrt(d)", "", 3, attending(keys="0.8", scores="0.9")),
    ("an attention that drops no weights", "", 3,
     attending(weights="d = Dropout(p, f, drops)", of="d", numbers=", bool drops = {0}")),
    ("an attention that drops weights", "training_mode", 3,
     attending(weights="d = Dropout(p, g, drops)", of="d", numbers=", bool drops = {1}")),
    ("an attention with a guard against NaN", "", 3, attending(weights="n = IsNaN(p) d = Where(n, f, p)", of="d")),
    ("a guard against the NaN of something else", "an operator that heddle has", 3,
     attending(weights="n = IsNaN(m) d = Where(n, f, p)", of="d")),
    ("two heads", "", 3, two_heads("0, 0")),
    ("two heads of places of all samples", "the batch as first axis", 3, two_heads("1, -1")),
    ("two heads of all places, which stay two", "", 3, two_heads("-1, 2")),
    ("two heads of all places, in ones", "one of their parts", 3, two_heads("-1, 1")),
    ("a reshape to the batch", "", 3, reshaped("3", "3, -1")),
    ("a reshape to one sample", "the batch as first axis", 3, reshaped("N", "1, -1")),
    ("a reshape to a batch of one", "", 1, reshaped("1", "1, -1")),
    ("a reshape to half as many samples", "the batch as first axis", 4, reshaped("4", "2, -1")),
    ("a group norm", "", 3, GROUPS + OF_CHANNELS + ">{" + GROUPED + "}"),
    ("a group norm, its weight of columns", "", 3, GROUPS + OF_COLUMNS + ">{" + GROUPED + "}"),
    (
        "a group norm, its weight of rows", "", 3,
        GROUPS + OF_CHANNELS.replace("4,1,1", "1,4,1") + ">{" + GROUPED + "}",
    ),
    (
        "groups over samples", "keeps the shape", 4,
        GROUPS.replace("{0, 4,", "{-1, 4,").replace("{0, 2, -1}", "{-1, 2, 64}") + OF_CHANNELS + ">{" + GROUPED + "}",
    ),
    (
        "groups that become the channels", "keeps the shape", 4,
        GROUPS.replace("{0, 4, 4, 4}", "{0, 0, 8, 4}") + "float[2,1,1] w = {1, -2}, float[2,1,1] s = {1, 2}>{"
        + GROUPED + "}",
    ),
    (
        "a bias of a convolution's channels", "", 3,
        "(float[N,1,4,4] x) => (float[N,32] y) <float[2,1,1,1] k = {2, 3}, float[1,2,1,1] c = {1, 5}>"
        "{a = Conv(x, k) b = Add(a, c) y = Flatten(b)}",
    ),
    (
        "a bias of the batch", "along axes of the value", 2,
        "(float[N,1,4,4] x) => (float[N,32] y) <float[2,1,1,1] k = {2, 3}, float[2,1,1,1] c = {1, 5}>"
        "{a = Conv(x, k) b = Add(a, c) y = Flatten(b)}",
    ),
    (
        "a bias of images behind a convolution of signals", "another shape", 2,
        "(float[2,1,8] x) => (float[1,32] y) <float[2,1,1] k = {2, 3}, float[1,2,1,1] c = {1, 5}>"
        "{a = Conv(x, k) b = Add(a, c) y = Flatten(b)}",
    ),
    (
        "a bias of more dimensions than a product", "another shape", 3,
        PRODUCT + "4] c = {1, 5, 2, 3}>{a = MatMul(x, w) b = Add(a, c) y = Flatten(b)}",
    ),
    (
        "a layer norm, its weight of rows", "a weight and a bias of the axes", 3,
        "(float[N,4,4] x) => (float[N,16] y) <float[4,1] w = {1, -2, 0.5, 3}>"
        "{a = LayerNormalization <axis = 2> (x, w) y = Flatten(a)}",
    ),
    (
        "an expanded value and a sum over what it repeats", "", 3,
        IMAGE + "float[1,1,1,1] k = {2}, int64[4] to = {1, 3, 1, 1}, int64[1] axis = {1}>"
        "{a = Conv(x, k) b = Relu(x) c = Expand(a, to) d = Add(c, b) e = ReduceSum(d, axis) y = Flatten(e)}",
    ),
    (
        "an expanded value beside what it becomes", "", 3,
        "(float[N,3,4,4] x) => (float[N,48] y) <float[1,3,1,1] k = {2, 1, -1}, int64[4] to = {1, 3, 1, 1}>"
        "{a = Conv(x, k) b = Relu(x) c = Expand(a, to) d = Mul(c, b) y = Flatten(d)}",
    ),
    (
        "a mean of an expanded value", "", 3,
        "(float[N,1,4,4] x) => (float[N,1] y) <float[1,1,1,1] k = {2}, int64[4] to = {1, 3, 1, 1},"
        "int64[2] sides = {2, 3}, int64[1] axis = {1}>{a = Conv(x, k) c = Expand(a, to)"
        "d = ReduceMean(c, sides) e = ReduceSum <keepdims = 0> (d, axis) y = Flatten(e)}",
    ),
    (
        "positions of an expanded value", "", 3,
        "(float[N,1,1,2] x) => (float[N,4] y) <float[1,1,1,1] k = {2}, int64[4] to = {1, 2, 1, 1},"
        "float[2,1,2] c = {1, 2, 3, 4}>{a = Conv(x, k) b = Expand(a, to) d = Add(b, c) y = Flatten(d)}",
    ),
    (
        "a bound of more dimensions than its value", "a constant number", 3,
        PRODUCT + "1] c = {0.5}>{a = MatMul(x, w) b = Min(a, c) y = Flatten(b)}",
    ),
    (
        "a swish of more dimensions than its value", "at most 2 dimensions", 3,
        PRODUCT + "1] c = {1}>{a = MatMul(x, w) b = Mul(a, c) d = Sigmoid(b) e = Mul(a, d) y = Flatten(e)}",
    ),
    (
        "a softmax over columns", "", 3,
        "(float[N,1,4,4] x) => (float[N,2,4,4] y) <float[2,1,1,1] k = {2, 3}>"
        "{a = Conv(x, k) y = Softmax <axis = -1> (a)}",
    ),
    ("a softmax over a third of the channels", "", 3,
     "(float[N,1,4,4] x) => (float[N,2,3,4,4] y) <float[6,1,1,1] k = {1, 2, 3, -1, 0.5, -2},"
     "int64[5] to = {0, 2, 3, 4, 4}>{a = Conv(x, k) b = Reshape(a, to) y = Softmax <axis = 1> (b)}"),
    ("a softmax over a fifth of the scores", "", 3,
     f"(float[N,1,4,4] x) => (float[N,2,5] y) <{drawn('w', 16, 10)}, int64[3] to = {{-1, 2, 5}}>"
     "{f = Flatten(x) g = MatMul(f, w) r = Reshape(g, to) y = Softmax <axis = 1> (r)}"),
    ("a batch norm of an old opset in training", "training_mode", 3, NORM.replace("OUTPUTS", "a, m, v, sm, sv"), 13),
    ("the same in evaluation", "", 3, NORM.replace("OUTPUTS", "a"), 13),
    (
        "a constant of columns", "", 3,
        IMAGE.replace("N,16", "N,1,4,4") + "float[1,1,1,1] k = {2}, float[4] c = {1, 2, 3, 4}>"
        "{a = Conv(x, k) y = Add(a, c)}",
    ),
    (
        "the root of a whole number that is cast", "", 3,
        ROW + "b = Min(a, c) y = MatMul(b, w)}",
    ),
    (
        "a swish of a scaled value", "", 3,
        ROW + "b = Mul(a, c) d = Sigmoid(b) e = Mul(a, d) y = MatMul(e, w)}",
    ),
    ("a swish whose sigmoid is bounded", "", 3,
     "(float[N,4] x) => (float[N,4] y) <float b = {-5}, float t = {7}, float h = {100}, " + MATRIX + ">{a = Mul(x, h)"
     "c = Relu(a) d = Sub(c, a) e = Clip(d, b, t) f = Sigmoid(e) g = Mul(d, f) y = MatMul(g, w)}"),
    ("a transposed convolution that keeps the side times the stride", "", 3,
     "(float[N,1,3,3] x) => (float[N,36] y) <float[1,1,3,3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9}>"
     '{a = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k) y = Flatten(a)}'),
    ("one with a kernel smaller than the stride", "at least as large as the stride", 3,
     "(float[N,1,3,3] x) => (float[N,25] y) <float[1,1,1,1] k = {2}>"
     '{a = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k) y = Flatten(a)}'),
    (
        "the quotient of sizes, rounded up", "", 3,
        "(float[N,1,7,4] x) => (float[N,16] y) <float[1,1,1,1] k = {2}, int64 h = {2}, int64 two = {2},"
        "int64[1] zero = {0}, int64[1] last = {-1}, int64[1] axis = {2}>{a = Conv(x, k) s = Shape(a)"
        "i = Gather(s, h) f = Cast <to = 1> (i) t = Cast <to = 1> (two) q = Div(f, t) c = Ceil(q) e = Cast <to = 7> (c)"
        "n = Reshape(e, last) b = Slice(a, zero, n, axis) y = Flatten(b)}",
    ),
    (
        "an attention whose values have rows and columns exchanged", "", 2,
        "(float[2,4,3,3] x) => (float[R,S] y) <float half = {0.5}, int64[3] to = {0, 4, 9}, float[4,4,1,1] k = {"
        "1, -2, 3, 1, 2, 1, -1, 1, 1, 2, 1, 3, -1, 1, 2, 1}>{a = Conv(x, k) b = Reshape(a, to)"
        "q = Transpose <perm = [0, 2, 1]> (b) c = Transpose <perm = [0, 1, 3, 2]> (a) d = Reshape(c, to)"
        "v = Transpose <perm = [0, 2, 1]> (d) s = MatMul(q, b) f = Mul(s, half) p = Softmax <axis = -1> (f)"
        "o = MatMul(p, v) y = Flatten(o)}",
    ),
    (
        "a sum of a half of all elements, which is no channel's", "", 3,
        "(float[N,4,3,8] x) => (float[N,48] y) <int64[3] to = {-1, 32, 3}, int64[4] back = {-1, 2, 48, 1},"
        "int64[1] axis = {1}, " + drawn("w", 48, 3) + ">{a = Relu(x) b = Reshape(a, to) c = Reshape(b, back)"
        "d = ReduceSum <keepdims = 0> (c, axis) e = Flatten(d) y = MatMul(e, w)}",
    ),
    (
        "an image of twice its rows and three times its columns", "", 3,
        "(float[N,2,3,4] x) => (float[N,2,6,12] y) <float[2,2,1,1] k = {1, 2, 3, 4}, int64[1] at4 = {4},"
        "int64[1] at3 = {3}, int64[5] across = {1, 1, 1, 1, 3}, int64[5] down = {1, 1, 1, 2, 1},"
        "int64[4] wide = {0, 2, 3, 12}, int64[4] high = {0, 2, 6, 12}>{a = Conv(x, k) b = Unsqueeze(a, at4)"
        "c = Tile(b, across) d = Reshape(c, wide) e = Unsqueeze(d, at3) f = Tile(e, down) y = Reshape(f, high)}",
    ),
    (
        "whole copies of an image, below each other", "", 3,
        "(float[N,2,3,4] x) => (float[N,2,6,4] y) <float[2,2,1,1] k = {1, 2, 3, 4}, int64[4] down = {1, 1, 2, 1}>"
        "{a = Conv(x, k) y = Tile(a, down)}",
    ),
    (
        "copies of samples", "behind the batch", 2,
        "(float[2,2,3,4] x) => (float[4,2,3,4] y) <float[2,2,1,1] k = {1, 2, 3, 4}, int64[4] by = {2, 1, 1, 1}>"
        "{a = Conv(x, k) y = Tile(a, by)}",
    ),
    (
        "the nearest of seven columns", "", 3,
        "(float[N,2,3,4] x) => (float[N,2,3,7] y) <float[2,2,1,1] k = {1, 2, 3, 4},"
        "int64[7] by = {0, 0, 1, 1, 2, 2, 3}>{a = Conv(x, k) y = Gather <axis = 3> (a, by)}",
    ),
    (
        "bytes that are moved before they are cast", "", 3,
        "(uint8[N,3,4,4] x) => (float[N,24] y) <float[2,3,1,1] k = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, int64[1] axis = {1},"
        "float[4] scales = {1, 1, 2, 1}, " + ends(a0=0, a1=1, a2=2, a3=3) + ">{b = Slice(x, a2, a3, axis)"
        "g = Slice(x, a1, a2, axis) r = Slice(x, a0, a1, axis) c = Concat <axis = 1> (b, g, r)"
        "p = MaxPool <kernel_shape = [2, 2], strides = [2, 1]> (c) h = Resize (p, , scales)"
        "f = Cast <to = 1> (h) d = Conv(f, k) y = Flatten(d)}",
    ),
    (
        "bytes that are interpolated", "found them as bytes", 3,
        "(uint8[N,1,4,4] x) => (float[N,64] y) <float[1,1,1,1] k = {0.1}, float[4] scales = {1, 1, 2, 2}>"
        '{h = Resize <mode = "linear"> (x, , scales) f = Cast <to = 1> (h) d = Conv(f, k) y = Flatten(d)}',
    ),
    (
        "other ones of seven columns", "nearest ones", 3,
        "(float[N,2,3,4] x) => (float[N,2,3,7] y) <float[2,2,1,1] k = {1, 2, 3, 4},"
        "int64[7] by = {0, 1, 1, 2, 2, 3, 3}>{a = Conv(x, k) y = Gather <axis = 3> (a, by)}",
    ),
]


def compare(program, folder, name, words, batch, text, opset=18):
    """What is wrong with a network; None: nothing is."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g ' + text)
    sides = [side.dim_value or batch for side in model.graph.input[0].type.tensor_type.shape.dim]
    is_bytes = model.graph.input[0].type.tensor_type.elem_type == TensorProto.UINT8
    x = np.random.default_rng(3).standard_normal(sides).astype(np.float32)
    x = np.abs(99 * x).astype(np.uint8) if is_bytes else x
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0].ravel()
    path, samples = os.path.join(folder, "network.onnx"), os.path.join(folder, "samples")
    save(model, path)
    x.astype(np.float32).tofile(samples)
    run = subprocess.run([program, path, samples, str(batch)], capture_output=True)
    said = run.stderr.decode().strip()
    if run.returncode or words:
        expected = run.returncode and words and words in said
        return None if expected else f"expected a refusal of '{words}', found '{said}'"
    found = np.frombuffer(run.stdout, np.float32)
    same = found.size == wanted.size and np.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return None if same else f"expected {wanted[:4]}, found {found[:4]}"


def main(program):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, *network in NETWORKS:
            why = compare(program, folder, name, *network)
            wrong += why is not None
            if why:
                print(f"{name}: {why}")
    print(f"{len(NETWORKS)} networks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
