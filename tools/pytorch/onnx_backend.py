"""ONNX's own tests of single operators: those with a batch of floats in and out, as heddle reads them.

    onnx_backend.py READ_SCORES [--markdown] [WORD ...]      build/tests/onnx/read_scores; exit code 1: some differ

With --markdown it prints a table for docs/export.md: of each operator how many tests are equal, and which are refused.
Inputs but the first become constants. A matrix of ones on its diagonal stands behind the operator, since a network
needs weights. Tests that the operator mixes samples in are among those that are refused.
"""
import collections
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

MOST = 20000  # numbers of a sample


def network(case):
    """The test as a network, its samples and what it computes of them; None: it is not of this kind."""
    graph = case.model.graph if case.model is not None else None
    if graph is None or len(graph.node) != 1 or any(i.type.WhichOneof("value") != "tensor_type" for i in graph.input):
        return None
    inputs, outputs = ([np.asarray(each) for each in some] for some in case.data_sets[0][:2])
    if not inputs or not outputs:
        return None
    x, y = inputs[0], outputs[0]
    if x.dtype != np.float32 or y.dtype != np.float32 or not 2 <= x.ndim <= 4 or y.ndim < 2 or len(y) != len(x):
        return None
    elems = int(np.prod(y.shape[1:]))
    if not x.size or not 0 < elems <= MOST:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    names, output = [each.name for each in graph.input], graph.output[0].name
    del graph.input[1:], graph.output[:]
    graph.initializer.extend(numpy_helper.from_array(array, name) for array, name in zip(inputs[1:], names[1:]))
    graph.initializer.append(numpy_helper.from_array(np.eye(elems, dtype=np.float32), "diagonal"))
    graph.node.append(helper.make_node("Flatten", [output], ["flat"], axis=1))
    graph.node.append(helper.make_node("MatMul", ["flat", "diagonal"], ["scores"], name="last"))
    graph.output.append(helper.make_tensor_value_info("scores", TensorProto.FLOAT, [len(x), elems]))
    return model, x, y


REFUSED, LACKS = "refused", "refused, since heddle has no such operator"


def judged(program, folder, case, made):
    """What a test comes to, and why."""
    model, x, y = made
    path, samples = os.path.join(folder, "test.onnx"), os.path.join(folder, "samples")
    onnx.save(model, path)
    x.tofile(samples)
    run = subprocess.run([program, path, samples, str(len(x))], capture_output=True)
    if run.returncode:
        why = run.stderr.decode().strip().replace(path + ": ", "")
        return LACKS if "operator that heddle" in why else REFUSED, why
    found = np.frombuffer(run.stdout, np.float32)
    apart = abs(found - y.ravel()).max() / max(1, abs(y).max()) if found.size == y.size else np.inf
    return "equal" if apart < 1e-4 else "wrong", f"{apart} apart"


def results(program, words):
    """Operator, name, what it comes to and why of each test."""
    with tempfile.TemporaryDirectory() as folder:
        for case in collect_testcases(None):
            try:
                made = network(case) if not words or any(word in case.name for word in words) else None
            except Exception:  # inputs that are no arrays
                made = None
            if made is not None:
                yield (case.model.graph.node[0].op_type, case.name, *judged(program, folder, case, made))


def print_table(found):
    """A line for each operator that heddle reads; a test is named without test_."""
    tests = collections.defaultdict(list)
    for op, name, what, _ in found:
        tests[op].append((name.removeprefix("test_"), what))
    print("| operator | equal | refused |\n|---|---|---|")
    for op, of in sorted(tests.items()):
        equal, others = sum(what == "equal" for _, what in of), [name for name, what in of if what != "equal"]
        if equal:
            print(f"| {op} | {equal} of {len(of)} | {', '.join(others)} |")
    lacks = [op for op, of in sorted(tests.items()) if all(what == LACKS for _, what in of)]
    print("\nOperators that heddle does not have: " + ", ".join(lacks) + ".")


def main(program, *words):
    warnings.filterwarnings("ignore")
    markdown, words = "--markdown" in words, [word for word in words if word != "--markdown"]
    found = list(results(program, words))
    tally = collections.Counter(what for _, _, what, _ in found)
    if markdown:
        print_table(found)
    for op, name, what, why in found:
        if not markdown and what != "equal":
            print(f"{name} ({op}): {why}")
    counts = ", ".join(f"{count} {what}" for what, count in tally.items())
    print(f"\nONNX {onnx.__version__}: {counts}." if markdown else counts)
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
