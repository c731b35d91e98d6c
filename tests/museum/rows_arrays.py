"""The museum's rows of arrays: NPY, NPZ, IDX, gzip."""

import struct
import zipfile

from museum_files import IDX, idx, idx_labels, idx_set, labels_npy, npy, npz, packed, put, some
from museum_table import Array, Check, Refuse, Values, inputs, row

X = some(20, 6, 5)
Y = [i * i % 7 % 3 for i in range(20)]
SMALL = Array(X.shape, [v // 2 for v in X.values])
FLOATS = Array(X.shape, [v / 8 for v in X.values])


def same(x, content, floats=False, y=Y, labels=None):
    put("d/x.npy", content)
    put("d/y.npy", labels or labels_npy(y))
    return Values("d", x, y, reader="npy", floats=floats)


def refuse(content, says, labels=None, options=()):
    put("d/x.npy", content)
    put("d/y.npy", labels or labels_npy(Y))
    return Refuse("d", says, reader="npy", trains=True, shape=(1, 6, 5), options=options)


def member(x, content, y=Y, **more):
    put("t.npz", content)
    return Values("t.npz", x, y, reader="npz", **more)


PLAIN = [("x.npy", npy(X)), ("y.npy", labels_npy(Y))]

# ---- NPY ----


@row
def npy_fortran():
    return same(X, npy(X, order="F"))


@row
def npy_transposed():
    x = some(12, 6)
    return same(x, npy(x, order="F"), y=Y[:12])


inputs(
    npy_fortran_floats=lambda: same(FLOATS, npy(FLOATS, "<f4", order="F"), floats=True),
    npy_big_endian=lambda: same(FLOATS, npy(FLOATS, ">f8"), floats=True),
    npy_big_endian_integers=lambda: same(X, npy(X, ">i4"), floats=True),
    npy_version_two=lambda: same(X, npy(X, version=2)),
)


@row
def npy_native():
    text = "{'descr': '=f4', 'fortran_order': False, 'shape': (20, 6, 5), }"
    return same(FLOATS, npy(FLOATS, "<f4", header=text), floats=True)


@row
def npy_signed():
    x = Array(X.shape, [v - 100 for v in SMALL.values])
    return same(x, npy(x, "|i1"), floats=True)


@row
def npy_nan():
    x = Array(X.shape, FLOATS.values[:77] + [float("nan")] + FLOATS.values[78:])
    return refuse(npy(x, "<f4"), r"sample 2")


@row
def npy_infinite():
    x = Array(X.shape, FLOATS.values[:77] + [float("inf")] + FLOATS.values[78:])
    return refuse(npy(x, "<f4"), r"sample 2")


@row
def npy_images_last():
    x = some(6, 5, 20)
    return refuse(npy(x), r"6.*20|20.*6")


@row
def npy_label_beyond():
    def labels():
        return labels_npy([192 if i == 4 else v for i, v in enumerate(Y)], "|u1")

    return refuse(npy(X), r"scores|classes", labels())


@row
def npy_probabilities():
    return refuse(npy(X), r"class labels.*float", npy(Array((20, 3), [-2.0] * 60), "<f4"), ("--loss", "cross_entropy"))


# ---- NPZ ----


@row
def npz_doubled():
    other = Array(X.shape, [255 - v for v in X.values])
    put("t.npz", npz(PLAIN + [("x.npy", npy(other))]))
    return Refuse("t.npz", r"t\.npz.*x\.npy|twice", reader="npz", shape=(1, 6, 5))


@row
def npz_packed():
    return member(X, npz(PLAIN, zipfile.ZIP_DEFLATED))


@row
def npz_bad_checksum():
    content = bytearray(npz(PLAIN))
    content[content.index(npy(X)) + 200] ^= 1
    put("t.npz", bytes(content))
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


@row
def npz_cut():
    put("t.npz", npz(PLAIN)[:-40])
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


@row
def npz_large_form():
    with zipfile.ZipFile("t.npz", "w") as file:
        for name, content in PLAIN:
            with file.open(zipfile.ZipInfo(name), "w", force_zip64=True) as to:
                to.write(content)
    return Values("t.npz", X, Y, reader="npz")


@row
def npz_objects():
    text = "{'descr': '|O', 'fortran_order': False, 'shape': (20,), }"
    put("t.npz", npz([("x.npy", npy(X)), ("y.npy", npy(Array((0,), []), header=text) + b"\x80\x04N.")]))
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


# ---- IDX and gzip ----


TX, TY = X[:6], Y[:6]


def whole(**more):
    return Values("d", X, Y, TX, TY, reader="idx", **more)


@row
def idx_members():
    idx_set(
        "d",
        X,
        Y,
        TX,
        TY,
        [name + ".gz" for name in IDX],
        lambda content: b"".join(packed(content[i : i + 100]) for i in range(0, len(content), 100)),
    )
    return whole()


@row
def idx_empty_members():
    idx_set(
        "d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(b"") + packed(content) + packed(b"")
    )
    return whole()


@row
def idx_half_labels():
    idx_set(
        "d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(content[:18]) + packed(content[18:])
    )
    return whole()


@row
def idx_packed_plain_names():
    idx_set("d", X, Y, TX, TY, pack=packed)
    return Refuse("d", r"train-images-idx3-ubyte", reader="idx", right=whole(), shape=(1, 6, 5))


@row
def idx_plain_packed_names():
    idx_set("d", X, Y, TX, TY, [name + ".gz" for name in IDX])
    return Refuse("d", r"ubyte\.gz", reader="idx", right=whole(), shape=(1, 6, 5))


@row
def idx_html():
    for name in IDX:
        put("d/%s.gz" % name, "<!DOCTYPE html><html><body>404</body></html>\n")
    return Refuse("d", r"ubyte\.gz", reader="idx", shape=(1, 6, 5))


@row
def idx_bad_checksum():
    idx_set(
        "d",
        X,
        Y,
        TX,
        TY,
        [name + ".gz" for name in IDX],
        lambda content: packed(content)[:-8] + b"abcd" + packed(content)[-4:],
    )
    return Refuse("d", r"ubyte\.gz", reader="idx", shape=(1, 6, 5))


@row
def idx_cut_packed():
    idx_set("d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(content)[:-12])
    return Refuse("d", r"ubyte\.gz", reader="idx", shape=(1, 6, 5))


@row
def idx_empty():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[0], "")
    return Refuse("d", IDX[0], reader="idx", shape=(1, 6, 5))


@row
def idx_dots():
    idx_set("d", X, Y, TX, TY, [name.replace("-idx", ".idx") for name in IDX])
    return whole()


@row
def idx_mixed():
    names = [IDX[0] + ".gz", IDX[1].replace("-idx", ".idx"), IDX[2], IDX[3] + ".gz"]
    idx_set("d", X, Y, TX, TY, names, packed, (0, 3))
    return whole()


@row
def idx_emnist():
    x, y = some(94, 6, 5), [i % 47 for i in range(94)]
    idx_set("d", x, y, x[:47], y[:47])
    return Values("d", x, y, x[:47], y[:47], reader="idx")


@row
def idx_letters():
    x, y = some(52, 6, 5), [i % 26 + 1 for i in range(52)]
    idx_set("d", x, y, x[:26], y[:26])
    return Values("d", x, y, x[:26], y[:26], reader="idx", says="class.* 0")


@row
def idx_test_beyond():
    idx_set("d", X, Y, TX, [v + 5 for v in TY])
    return Refuse("d", r"t10k-labels", right=Values("d", X, Y, TX, [v + 5 for v in TY]), reader="idx", shape=(1, 6, 5))


@row
def idx_counts():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[1], idx_labels(Y[:15]))
    return Refuse("d", r"20.*15|15.*20", reader="idx", shape=(1, 6, 5))


@row
def idx_magic():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[0], b"a" + idx(X)[1:])
    return Refuse("d", IDX[0], reader="idx", shape=(1, 6, 5))


@row
def idx_size():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[0], struct.pack(">IIII", 2051, 19, 6, 5) + bytes(X.values))
    return Refuse("d", IDX[0], reader="idx", shape=(1, 6, 5))


# ---- Bytes and floats ----


def of_the_other_kind(trained, kind, other, other_kind, says):
    """A run on the one is to refuse the other."""

    def check(h):
        put(h.path("d/x.npy"), npy(trained, kind))
        put(h.path("d/y.npy"), labels_npy(Y))
        put(h.path("other.npy"), npy(other, other_kind))
        h.model((1, 6, 5), 3)
        h.train("--model", "net.yaml", "--data", "d", "--max-steps", "1", "--out", "r")
        return h.refused(h("predict", "r", "other.npy"), says)

    return Check(check)


inputs(
    npy_bytes_for_floats=lambda: of_the_other_kind(FLOATS, "<f4", X, "|u1", r"other\.npy: expected floats"),
    npy_floats_for_bytes=lambda: of_the_other_kind(
        X, "|u1", Array(X.shape, [float(v) for v in X.values]), "<f4", r"other\.npy: .* 0 to 1"
    ),
)
