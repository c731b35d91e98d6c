"""Writes small files of many formats, whole or odd, with Python's own library alone."""

import gzip
import io
import json
import os
import struct
import warnings
import zipfile
import zlib

from museum_table import Array


def put(path, content):
    """Writes text or bytes, making the folders above."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def some(*shape, top=256, step=37):
    """Whole numbers below `top` that look random and never change."""
    count = 1
    for side in shape:
        count *= side
    return Array(shape, [(i * step + i * i // 7 + i // 5) % top for i in range(count)])


# ---- Tables ----


def field(value):
    text = value if isinstance(value, str) else repr(value)
    return '"%s"' % text.replace('"', '""') if any(c in text for c in ',"\n') else text


def table(names, rows, end="\n", between=","):
    lines = ([names] if names else []) + [[field(value) for value in row] for row in rows]
    return "".join(between.join(line) + end for line in lines)


# ---- Arrays ----

CODES = {
    "u1": "B",
    "i1": "b",
    "i2": "h",
    "u2": "H",
    "i4": "i",
    "u4": "I",
    "i8": "q",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "b1": "?",
}


def fortran(array):
    """The same array's values, first index fastest."""
    found = []

    def walk(place, shape, step):
        if not shape:
            found.append(array.values[place])
            return
        for i in range(shape[-1]):
            walk(place + i * step, shape[:-1], step * shape[-1])

    walk(0, array.shape, 1)
    return found


def npy(array, kind="|u1", order="C", version=1, header=None):
    text = header or "{'descr': '%s', 'fortran_order': %s, 'shape': %r, }" % (kind, order == "F", array.shape)
    size = 2 if version == 1 else 4
    text += " " * (-(8 + size + len(text) + 1) % 64) + "\n"
    values = fortran(array) if order == "F" else array.values
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if size == 2 else "<I", len(text))
        + text.encode()
        + struct.pack((">" if kind[0] == ">" else "<") + "%d" % len(values) + CODES[kind[1:]], *values)
    )


def labels_npy(labels, kind="<i8"):
    return npy(Array((len(labels),), labels), kind)


def npz(members, packing=zipfile.ZIP_STORED):
    """An archive of (name, bytes)."""
    to = io.BytesIO()
    warnings.simplefilter("ignore", UserWarning)  # of names that come twice
    with zipfile.ZipFile(to, "w", packing) as file:
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, packing)
    return to.getvalue()


# ---- IDX ----


def idx(array, kind=8):
    return struct.pack(">HBB%dI" % len(array.shape), 0, kind, len(array.shape), *array.shape) + bytes(array.values)


def idx_labels(labels):
    return idx(Array((len(labels),), labels))


IDX = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def idx_set(path, x, y, tx, ty, names=IDX, pack=None, only=range(4)):
    for i, content in enumerate([idx(x), idx_labels(y), idx(tx), idx_labels(ty)]):
        put(os.path.join(path, names[i]), pack(content) if pack and i in only else content)


def packed(content):
    return gzip.compress(content, mtime=0)


# ---- Pictures ----


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, lines, depth=8, colour=0, before=(), behind=b"", interlaced=0):
    """lines: the bytes of each line, packed as depth and colour say."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
        + b"".join(chunk(*each) for each in before)
        + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(line) for line in lines)))
        + chunk(b"IEND", b"")
        + behind
    )


def grey(values, width):
    """An 8-bit grey picture of a list of bytes."""
    return png(width, len(values) // width, [values[i : i + width] for i in range(0, len(values), width)])


def colour(values, width):
    """An 8-bit picture of red, green, blue, red ..."""
    return png(
        width,
        len(values) // width // 3,
        [values[i : i + 3 * width] for i in range(0, len(values), 3 * width)],
        colour=2,
    )


def jpeg(blocks, orientation=None, components=1):
    """A baseline JPEG whose blocks of 8 x 8 pixels have one value each: blocks[line][column], and as many lists of
    such lines as there are components if there are several."""
    planes = [blocks] if components == 1 else blocks
    height, width = 8 * len(planes[0]), 8 * len(planes[0][0])

    def segment(mark, content):
        return struct.pack(">BBH", 0xFF, mark, 2 + len(content)) + content

    bits, before = "", [128] * components
    for line in range(len(planes[0])):
        for column in range(len(planes[0][0])):
            for i, plane in enumerate(planes):
                more = 8 * (plane[line][column] - before[i])
                before[i] = plane[line][column]
                size = abs(more).bit_length()
                bits += (
                    format(size, "04b")
                    + (format(more if more > 0 else more + (1 << size) - 1, "0%db" % size) if size else "")
                    + "0"
                )
    bits += "1" * (-len(bits) % 8)
    coded = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")
    exif = (
        b""
        if orientation is None
        else segment(0xE1, b"Exif\0\0MM\0*\0\0\0\x08\0\1" + struct.pack(">HHIHHI", 0x112, 3, 1, orientation, 0, 0))
    )
    return (
        b"\xff\xd8"
        + exif
        + segment(0xDB, b"\0" + b"\1" * 64)
        + segment(
            0xC0,
            struct.pack(">BHHB", 8, height, width, components)
            + b"".join(bytes([i + 1, 0x11, 0]) for i in range(components)),
        )
        + segment(0xC4, b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12)))
        + segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0")
        + segment(0xDA, bytes([components]) + b"".join(bytes([i + 1, 0]) for i in range(components)) + b"\0\x3f\0")
        + coded
        + b"\xff\xd9"
    )


# ---- Weights and networks ----


def safetensors(tensors, kind="F32", header=lambda text: text):
    """tensors: name to Array of floats."""
    head, content = {}, b""
    for name, array in tensors.items():
        if kind == "BF16":
            coded = b"".join(struct.pack("<f", v)[2:] for v in array.values)
        else:
            coded = struct.pack(
                "<%d%s" % (len(array.values), {"F32": "f", "F16": "e", "F64": "d"}[kind]), *array.values
            )
        head[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(content), len(content) + len(coded)],
        }
        content += coded
    text = header(json.dumps(head)).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content


def varint(value):
    value &= (1 << 64) - 1
    coded = b""
    while value > 127:
        coded += bytes([value & 127 | 128])
        value >>= 7
    return coded + bytes([value])


def part(number, value):
    """A field of a protocol buffer: a whole number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, float):
        return part(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + part(20, 1)
    if isinstance(value, int):
        return part(1, name) + part(3, value) + part(20, 2)
    if isinstance(value, str):
        return part(1, name) + part(4, value) + part(20, 3)
    return part(1, name) + b"".join(part(8, each) for each in value) + part(20, 7)


def node(op, inputs, output, **attributes):
    return (
        b"".join(part(1, each) for each in inputs)
        + part(2, output)
        + part(3, output)
        + part(4, op)
        + b"".join(part(5, attribute(*each)) for each in attributes.items())
    )


def value_info(name, shape):
    sides = b"".join(part(1, part(1, side)) for side in shape)
    return part(1, name) + part(2, part(1, part(1, 1) + part(2, sides)))


def onnx(nodes, weights, shape, output, outputs):
    """nodes, name to Array of floats, the input's shape (called x), the output's name and how many scores."""

    def tensor(name, array):
        return (
            b"".join(part(1, side) for side in array.shape)
            + part(2, 1)
            + part(8, name)
            + part(9, struct.pack("<%df" % len(array.values), *array.values))
        )

    graph = (
        b"".join(part(1, each) for each in nodes)
        + part(2, "g")
        + b"".join(part(5, tensor(*each)) for each in weights.items())
        + part(11, value_info("x", shape))
        + part(12, value_info(output, (1, outputs)))
    )
    return part(1, 8) + part(7, graph) + part(8, part(2, 17))
