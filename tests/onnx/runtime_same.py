"""runtime_same.py ORIGINAL EXPORTED [RANGE]: compares an ONNX file of another program with what heddle exported after
it had read that: ONNX Runtime computes the same scores of both, within 1e-5. The exported one normalises its pixels
first; so does the original with RANGE, whose input is pixels divided by it."""
import sys

import numpy
import onnx
import onnxruntime

original, exported = sys.argv[1:3]
own_range = float(sys.argv[3]) if len(sys.argv) > 3 else None
graph = onnx.load(original).graph
constant = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(exported).graph.initializer}


def scores(path, samples):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: samples})[0].reshape(len(samples), -1)


shape = [20] + onnxruntime.InferenceSession(exported).get_inputs()[0].shape[1:]
pixels = numpy.random.default_rng(0).integers(0, 256, shape).astype(numpy.float32)
dims = graph.input[0].type.tensor_type.shape.dim
normal = pixels * constant["pixels/scale"] + constant["pixels/shift"]
if own_range:
    normal = (pixels / numpy.float32(own_range)).astype(onnx.helper.tensor_dtype_to_np_dtype(
        graph.input[0].type.tensor_type.elem_type))
wanted = scores(original, normal.reshape(20, *[dim.dim_value for dim in dims[1:]]))
found = scores(exported, pixels)
if graph.node[-1].op_type == "Softmax":
    found = numpy.exp(found - found.max(1, keepdims=True))
    found /= found.sum(1, keepdims=True)
difference = numpy.abs(found - wanted).max() / max(1, numpy.abs(wanted).max())
print(f"largest difference {difference:.1e}")
if not difference <= 1e-5:
    sys.exit(f"{original}: expected scores within 1e-5, found a difference of {difference}")
