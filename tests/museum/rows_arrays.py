"""The museum's rows of arrays: NPY, NPZ, IDX, gzip."""

import struct
import zipfile

from museum_files import IDX, idx, idx_labels, idx_set, labels_npy, npy, npz, packed, put, some
from museum_table import Array, Check, Refuse, Values, row

X = some(20, 6, 5)
Y = [i * i % 7 % 3 for i in range(20)]
SMALL = Array(X.shape, [v // 2 for v in X.values])
FLOATS = Array(X.shape, [v / 8 for v in X.values])


def array(thread, did, wrong, right):
    return row("NPY and NPZ", thread, did, wrong, right)


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


@array(
    "rogersce/cnpy#7",
    "loaded an array that was saved in Fortran's order",
    "the flag was misread, and the array came out transposed",
    "the same array as in C's order",
)
def npy_fortran():
    return same(X, npy(X, order="F"))


@array(
    "eddelbuettel/rcppcnpy#28",
    "loaded an array that had been transposed before it was saved",
    "rows and columns were mixed up",
    "the array as NumPy has it",
)
def npy_transposed():
    x = some(12, 6)
    return same(x, npy(x, order="F"), y=Y[:12])


@array(
    "haochengxia/vscode-numpy-viewer#1",
    "looked at floats saved in Fortran's order",
    "the viewer stopped with an assertion",
    "the same array as in C's order",
)
def npy_fortran_floats():
    return same(FLOATS, npy(FLOATS, "<f4", order="F"), floats=True)


@array(
    "pmontalb/NpyCpp#2",
    "loaded an array of big-endian floats",
    "the bytes were taken in the machine's order",
    "the numbers in either order",
)
def npy_big_endian():
    return same(FLOATS, npy(FLOATS, ">f8"), floats=True)


@array(
    "marcoheisig/numpy-file-format#2",
    "loaded an array of big-endian integers",
    "byte order was not supported",
    "the numbers in either order",
)
def npy_big_endian_integers():
    return same(X, npy(X, ">i4"), floats=True)


@array(
    "rogersce/cnpy#77",
    "loaded a file with a header of version 2",
    "the length of the header was read from the wrong bytes",
    "the same array as with version 1",
)
def npy_version_two():
    return same(X, npy(X, version=2))


@array(
    "leanprover/TensorLib#17",
    "wrote a reader of NPY, with four signs for the order of bytes",
    "whether the sign = has to be read was left open",
    "= is this machine's order",
)
def npy_native():
    text = "{'descr': '=f4', 'fortran_order': False, 'shape': (20, 6, 5), }"
    return same(FLOATS, npy(FLOATS, "<f4", header=text), floats=True)


@array(
    "niivue/niivue#1609",
    "loaded a map of signed integers",
    "the header was read with the wrong type",
    "negative numbers stay negative",
)
def npy_signed():
    x = Array(X.shape, [v - 100 for v in SMALL.values])
    return same(x, npy(x, "|i1"), floats=True)


@array(
    "ai2cm/ace#1297",
    "trained on data with nan in a sample",
    "the loss became nan, and nothing named the variable",
    "refused, with the sample",
)
def npy_nan():
    x = Array(X.shape, FLOATS.values[:77] + [float("nan")] + FLOATS.values[78:])
    return refuse(npy(x, "<f4"), r"sample 2")


@array(
    "facebook/Ax#4004",
    "attached data with nan or infinity to an experiment",
    "the error came later, from within the model",
    "refused, with the sample",
)
def npy_infinite():
    x = Array(X.shape, FLOATS.values[:77] + [float("inf")] + FLOATS.values[78:])
    return refuse(npy(x, "<f4"), r"sample 2")


@array(
    "OpenChemistry/tomviz#1809",
    "saved 20 images as height x width x images",
    "the order of dimensions was another than the reader's",
    "refused: counts of images and labels differ",
)
def npy_images_last():
    x = some(6, 5, 20)
    return refuse(npy(x), r"6.*20|20.*6")


@array(
    "milesial/Pytorch-UNet#291",
    "trained on masks whose labels are grey values",
    "a label of 192 was out of bounds, said an index error",
    "refused: the network has too few scores",
)
def npy_label_beyond():
    def labels():
        return labels_npy([192 if i == 4 else v for i, v in enumerate(Y)], "|u1")

    return refuse(npy(X), r"scores|classes", labels())


@array(
    "pytorch/pytorch#152437",
    "trained a classifier on negative probabilities",
    "nothing checked them: a loss came out",
    "refused: they are no classes",
)
def npy_probabilities():
    return refuse(npy(X), r"class labels.*float", npy(Array((20, 3), [-2.0] * 60), "<f4"),
                  ("--loss", "cross_entropy"))


# ---- NPZ ----


@array(
    "numpy/numpy#20033",
    "saved an array twice under the same name in an archive",
    "one of the two was loaded, without a word",
    "refused, with the name",
)
def npz_doubled():
    other = Array(X.shape, [255 - v for v in X.values])
    put("t.npz", npz(PLAIN + [("x.npy", npy(other))]))
    return Refuse("t.npz", r"t\.npz.*x\.npy|twice", reader="npz", shape=(1, 6, 5))


@array(
    "matajoh/libnpy#35",
    "loaded a compressed archive of arrays of several dimensions",
    "the checksum did not match, though the file was whole",
    "the arrays",
)
def npz_packed():
    return member(X, npz(PLAIN, zipfile.ZIP_DEFLATED))


@array(
    "mengyuest/TeLoGraF#2",
    "downloaded an archive that was damaged",
    "unzip found a bad checksum",
    "refused, with the file",
)
def npz_bad_checksum():
    content = bytearray(npz(PLAIN))
    content[content.index(npy(X)) + 200] ^= 1
    put("t.npz", bytes(content))
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


@array(
    "paarthneekhara/text-to-image#69",
    "downloaded an archive, of which the end is missing",
    "the file was not a zip file, said the error",
    "refused, with the file",
)
def npz_cut():
    put("t.npz", npz(PLAIN)[:-40])
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


@array(
    "LaurentMazare/npy-ocaml#7",
    "loaded an archive written in the form for large files",
    "sizes came out wrong",
    "the arrays",
)
def npz_large_form():
    with zipfile.ZipFile("t.npz", "w") as file:
        for name, content in PLAIN:
            with file.open(zipfile.ZipInfo(name), "w", force_zip64=True) as to:
                to.write(content)
    return Values("t.npz", X, Y, reader="npz")


@array(
    "static-frame/static-frame#411",
    "saved Python objects in an archive",
    "a file was left that nothing could open",
    "refused: objects can run code",
)
def npz_objects():
    text = "{'descr': '|O', 'fortran_order': False, 'shape': (20,), }"
    put("t.npz", npz([("x.npy", npy(X)), ("y.npy", npy(Array((0,), []), header=text) + b"\x80\x04N.")]))
    return Refuse("t.npz", r"t\.npz", reader="npz", shape=(1, 6, 5))


# ---- IDX and gzip ----


def digits(thread, did, wrong, right):
    return row("IDX and gzip", thread, did, wrong, right)


TX, TY = X[:6], Y[:6]


def whole(**more):
    return Values("d", X, Y, TX, TY, reader="idx", **more)


@digits(
    "madler/zlib#984",
    "unpacked a file of several gzip members",
    "only the first member came out",
    "all members, one after the other",
)
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


@digits(
    "ebiggers/libdeflate#31",
    "unpacked a file with empty gzip members in it",
    "it was called corrupt",
    "all members, one after the other",
)
def idx_empty_members():
    idx_set(
        "d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(b"") + packed(content) + packed(b"")
    )
    return whole()


@digits(
    "oven-sh/bun#31522",
    "unpacked a file whose labels come in two gzip members",
    "the second half was silently missing",
    "all labels",
)
def idx_half_labels():
    idx_set(
        "d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(content[:18]) + packed(content[18:])
    )
    return whole()


@digits(
    "CEA-LIST/N2D2#118",
    "saved packed files under the names of unpacked ones",
    "the first bytes were not the expected number",
    "refused, or unpacked: gzip is known by its first bytes",
)
def idx_packed_plain_names():
    idx_set("d", X, Y, TX, TY, pack=packed)
    return Refuse("d", r"train-images-idx3-ubyte", reader="idx", right=whole(), shape=(1, 6, 5))


@digits(
    "fgnt/mnist#1", "unpacked a download that was not packed", "gunzip refused the file", "refused, or read as it is"
)
def idx_plain_packed_names():
    idx_set("d", X, Y, TX, TY, [name + ".gz" for name in IDX])
    return Refuse("d", r"ubyte\.gz", reader="idx", right=whole(), shape=(1, 6, 5))


@digits(
    "carlini/nn_robust_attacks#51",
    "got a page of HTML under the name of a data file",
    "a traceback ended in: not a gzipped file",
    "refused, with the file",
)
def idx_html():
    for name in IDX:
        put("d/%s.gz" % name, "<!DOCTYPE html><html><body>404</body></html>\n")
    return Refuse("d", r"ubyte\.gz", reader="idx", shape=(1, 6, 5))


@digits(
    "apache/mxnet#4285",
    "loaded a file that was damaged on its way",
    "a checksum did not match, said a traceback",
    "refused, with the file",
)
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


@digits(
    "deeplearning4j/deeplearning4j#3670",
    "trained on files that were damaged when they were fetched",
    "they were read, and nothing was learnt",
    "refused, with the file",
)
def idx_cut_packed():
    idx_set("d", X, Y, TX, TY, [name + ".gz" for name in IDX], lambda content: packed(content)[:-12])
    return Refuse("d", r"ubyte\.gz", reader="idx", shape=(1, 6, 5))


@digits("datapythonista/mnist#19", "loaded an empty file", "an exception spoke of the header", "refused, with the file")
def idx_empty():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[0], "")
    return Refuse("d", IDX[0], reader="idx", shape=(1, 6, 5))


@digits(
    "sorki/python-mnist#19",
    "unpacked the files with a program that writes t10k-images.idx3-ubyte",
    "they were not found",
    "both spellings are the same",
)
def idx_dots():
    idx_set("d", X, Y, TX, TY, [name.replace("-idx", ".idx") for name in IDX])
    return whole()


@digits(
    "davidMcneil/mnist#2",
    "had some files packed and some with dots in their names",
    "one spelling alone was known",
    "any mixture is read",
)
def idx_mixed():
    names = [IDX[0] + ".gz", IDX[1].replace("-idx", ".idx"), IDX[2], IDX[3] + ".gz"]
    idx_set("d", X, Y, TX, TY, names, packed, (0, 3))
    return whole()


@digits(
    "pytorch/vision#2630",
    "loaded EMNIST's set of 47 classes",
    "labels did not match their names, or were out of range",
    "47 classes",
)
def idx_emnist():
    x, y = some(94, 6, 5), [i % 47 for i in range(94)]
    idx_set("d", x, y, x[:47], y[:47])
    return Values("d", x, y, x[:47], y[:47], reader="idx")


@digits(
    "pytorch/vision#2673",
    "loaded EMNIST's letters, whose labels begin at 1",
    "names of classes were off by one",
    "labels as they are: 27 classes, the first empty",
)
def idx_letters():
    x, y = some(52, 6, 5), [i % 26 + 1 for i in range(52)]
    idx_set("d", x, y, x[:26], y[:26])
    return Values("d", x, y, x[:26], y[:26], reader="idx", says="class.* 0")


@digits(
    "sorki/python-mnist#11",
    "loaded labels of a set with more classes than MNIST",
    "the test labels came out wrong",
    "refused if training lacks one of them",
)
def idx_test_beyond():
    idx_set("d", X, Y, TX, [v + 5 for v in TY])
    return Refuse("d", r"t10k-labels", right=Values("d", X, Y, TX, [v + 5 for v in TY]), reader="idx", shape=(1, 6, 5))


@digits(
    "ultralytics/yolov5#28",
    "had more images than labels",
    "labels were shifted against the images",
    "refused, with both counts",
)
def idx_counts():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[1], idx_labels(Y[:15]))
    return Refuse("d", r"20.*15|15.*20", reader="idx", shape=(1, 6, 5))


@digits(
    "ivanyu/idx2numpy#10",
    "read a file whose first bytes are not zero",
    "the error was about a magic number",
    "refused, with the file",
)
def idx_magic():
    idx_set("d", X, Y, TX, TY)
    put("d/" + IDX[0], b"a" + idx(X)[1:])
    return Refuse("d", IDX[0], reader="idx", shape=(1, 6, 5))


@digits(
    "tolstikhin/adagan#1",
    "loaded a file whose size does not fit its counts",
    "an array could not be reshaped, said the error",
    "refused, with the file",
)
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


@array(
    "GoogleCloudPlatform/asl-ml-immersion#424",
    "predicted from pixels divided by 255 once more than in training",
    "almost every answer was the same class",
    "bytes are refused where floats were trained, which say nothing of their range",
)
def npy_bytes_for_floats():
    return of_the_other_kind(FLOATS, "<f4", X, "|u1", r"other\.npy: expected floats")


@array(
    "ayushdabra/dubai-satellite-imagery-segmentation#3",
    "predicted from pixels up to 255 where training had 0 to 1",
    "the predicted areas were wrong",
    "refused, with a number that is no pixel's",
)
def npy_floats_for_bytes():
    return of_the_other_kind(X, "|u1", Array(X.shape, [float(v) for v in X.values]), "<f4", r"other\.npy: .* 0 to 1")
