"""The museum's rows of pictures and of folders of them."""

import os
import struct
import zlib

from museum_files import chunk, colour, grey, jpeg, png, put, some
from museum_heddle import Skip, equal
from museum_table import Array, Check, Refuse, Values, inputs, row

W, H, COUNT = 6, 8, 10  # of each class
GREY = some(2 * COUNT, H, W)
COLOUR = some(2 * COUNT, H, W, 3)
SIXTEEN = some(2 * COUNT, H, W, top=65536, step=7919)
Y = ["cat"] * COUNT + ["dog"] * COUNT


def each(array):
    size = len(array.values) // len(array)
    return [array.values[i * size : i * size + size] for i in range(len(array))]


def folder(path, files, names=Y, end=".png"):
    for i, (name, content) in enumerate(zip(names, files)):
        put("%s/%s/%02d%s" % (path, name, i, end), content)


def same(x, files, end=".png", **more):
    """These pixels."""
    folder("d", files, end=end)
    return Values("d", x, Y, reader="folder", **more)


def refuse(odd, says, end=".png", **more):
    """One odd picture among good ones."""
    files = [grey(values, W) for values in each(GREY)]
    folder("d", files[:-1])
    put("d/dog/19" + end, odd)
    return Refuse("d", says, reader="folder", shape=(1, H, W), **more)


def split(values, size):
    return [values[i : i + size] for i in range(0, len(values), size)]


# ---- PNG ----


@row
def png_sixteen():
    def lines(values):
        return [struct.pack(">%dH" % W, *line) for line in split(values, W)]

    x = Array(GREY.shape, [(v * 255 + 32767) // 65535 for v in SIXTEEN.values])
    return same(x, [png(W, H, lines(values), 16) for values in each(SIXTEEN)], near=1, also=[SIXTEEN])


@row
def png_twelve():
    def lines(values):
        return [struct.pack(">%dH" % W, *line) for line in split(values, W)]

    twelve = Array(SIXTEEN.shape, [v % 4096 for v in SIXTEEN.values])
    x = Array(GREY.shape, [(v * 255 + 32767) // 65535 for v in twelve.values])
    return same(x, [png(W, H, lines(values), 16) for values in each(twelve)], near=1, also=[twelve])


@row
def png_sixteen_colour():
    deep = some(2 * COUNT, H, W, 3, top=65536, step=7919)
    x = Array(COLOUR.shape, [(v * 255 + 32767) // 65535 for v in deep.values])
    return same(
        x,
        [
            png(W, H, [struct.pack(">%dH" % (3 * W), *line) for line in split(values, 3 * W)], 16, 2)
            for values in each(deep)
        ],
        near=1,
    )


@row
def png_transparent():
    x, files, raw = [], [], []
    for values in each(GREY):
        alpha = [0 if i % 3 else 255 for i in range(len(values))]
        x += [v if a else 255 for v, a in zip(values, alpha)]
        raw += [b for pair in zip(values, alpha) for b in pair]
        files.append(png(W, H, split([b for pair in zip(values, alpha) for b in pair], 2 * W), colour=4))
    return same(Array(GREY.shape, x), files, says="transparen", also=[Array((*GREY.shape, 2), raw)])


@row
def png_transparent_colour():
    x, files, raw = [], [], []
    for values in each(COLOUR):
        line = []
        for i, pixel in enumerate(split(values, 3)):
            line += [*pixel, 255 * (i % 2)]
            x += pixel if i % 2 else [255] * 3
        raw += line
        files.append(png(W, H, split(line, 4 * W), colour=6))
    return same(Array(COLOUR.shape, x), files, says="transparen", also=[Array((*COLOUR.shape[:3], 4), raw)])


@row
def png_transparent_palette():
    palette = [(i * 16, 255 - i * 16, i * 7) for i in range(16)]
    chosen = [[v % 16 for v in values] for values in each(GREY)]
    files = [
        png(
            W,
            H,
            [[line[i] << 4 | line[i + 1] for i in range(0, W, 2)] for line in split(values, W)],
            4,
            3,
            before=[(b"PLTE", bytes(b for entry in palette for b in entry)), (b"tRNS", b"\xff\xff\xff\0")],
        )
        for values in chosen
    ]
    x = [b for values in chosen for v in values for b in ((255, 255, 255) if v == 3 else palette[v])]
    return same(Array(COLOUR.shape, x), files, says="transparen")


@row
def png_palette():
    palette = [(0, 9, 200), (70, 80, 90), (255, 3, 5), (1, 255, 128)]
    chosen = [[v % 4 for v in values] for values in each(GREY)]
    files = [
        png(
            W,
            H,
            [
                [line[0] << 6 | line[1] << 4 | line[2] << 2 | line[3], line[4] << 6 | line[5] << 4]
                for line in split(values, W)
            ],
            2,
            3,
            before=[(b"PLTE", bytes(b for entry in palette for b in entry))],
        )
        for values in chosen
    ]
    return same(Array(COLOUR.shape, [b for values in chosen for v in values for b in palette[v]]), files)


@row
def png_one_bit():
    bits = [[v % 2 for v in values] for values in each(GREY)]
    files = [png(W, H, [[int("".join(map(str, line)) + "00", 2)] for line in split(values, W)], 1) for values in bits]
    flat = [v for values in bits for v in values]
    return same(Array(GREY.shape, [255 * v for v in flat]), files, also=[Array(GREY.shape, flat)])


@row
def png_interlaced():
    def passes(values):
        for x, y, dx, dy in (
            (0, 0, 8, 8),
            (4, 0, 8, 8),
            (0, 4, 4, 8),
            (2, 0, 4, 4),
            (0, 2, 2, 4),
            (1, 0, 2, 2),
            (0, 1, 1, 2),
        ):
            for line in range(y, H, dy):
                if values[line * W + x : line * W + W : dx]:
                    yield values[line * W + x : line * W + W : dx]

    return same(GREY, [png(W, H, list(passes(values)), interlaced=1) for values in each(GREY)])


@row
def png_mixed():
    files = [colour(values, W) for values in each(COLOUR)]
    x = list(COLOUR.values)
    for i in (3, 12):
        files[i] = grey(each(GREY)[i], W)
        x[i * 3 * H * W : (i + 1) * 3 * H * W] = [v for v in each(GREY)[i] for _ in range(3)]
    return same(Array(COLOUR.shape, x), files)


inputs(
    png_sizes=lambda: refuse(grey([7] * 7 * H, 7), r"19\.png.*7"),
    png_cut=lambda: refuse(grey(each(GREY)[0], W)[:-30], r"19\.png"),
    png_empty=lambda: refuse(b"", r"19\.png"),
)


@row
def png_checksum():
    content = grey(each(GREY)[0], W)
    x = Array(GREY.shape, GREY[:-1].values + each(GREY)[0])
    return refuse(content[:-14] + b"zz" + content[-12:], r"19\.png", right=Values("d", x, Y))


inputs(
    png_text=lambda: refuse("not a picture\n", r"19\.png"),
    png_huge=lambda: refuse(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b""),
        r"19\.png",
    ),
)


# ---- JPEG ----

BLOCKS = [[[v for v in values[:2]], [v for v in values[2:4]], [v for v in values[4:6]]] for values in each(GREY)]


def pixels(blocks):
    """Of a grey picture of blocks of 8 x 8."""
    return [v for line in blocks for _ in range(8) for v in line for _ in range(8)]


def turned(blocks):
    """A quarter to the right."""
    return [[blocks[len(blocks) - 1 - i][k] for i in range(len(blocks))] for k in range(len(blocks[0]))]


@row
def jpeg_turned():
    x = [v for blocks in BLOCKS for v in pixels(turned(blocks))]
    return same(Array((20, 16, 24), x), [jpeg(blocks, 6) for blocks in BLOCKS], ".jpg")


@row
def jpeg_upside_down():
    x = [v for blocks in BLOCKS for v in reversed(pixels(blocks))]
    return same(Array((20, 24, 16), x), [jpeg(blocks, 3) for blocks in BLOCKS], ".jpg")


@row
def jpeg_mirrored():
    x = [v for blocks in BLOCKS for v in pixels([line[::-1] for line in blocks])]
    return same(Array((20, 24, 16), x), [jpeg(blocks, 2) for blocks in BLOCKS], ".jpg")


def refuse_jpeg(odd, says, **more):
    folder("d", [jpeg(blocks) for blocks in BLOCKS][:-1], end=".jpg")
    put("d/dog/19.jpg", odd)
    return Refuse("d", says, reader="folder", shape=(1, 24, 16), **more)


@row
def jpeg_cut():
    return refuse_jpeg(jpeg(BLOCKS[1])[:-6], r"19\.jpg")


@row
def jpeg_no_end():
    x = [v for blocks in BLOCKS[:-1] + [BLOCKS[1]] for v in pixels(blocks)]
    return refuse_jpeg(jpeg(BLOCKS[1])[:-2], r"19\.jpg", right=Values("d", Array((20, 24, 16), x), Y))


inputs(
    jpeg_print=lambda: refuse_jpeg(jpeg([BLOCKS[1]] * 4, components=4), r"19\.jpg", asked=False),
    jpeg_turned_size=lambda: refuse_jpeg(jpeg(BLOCKS[1], 6), r"19\.jpg.*24"),
)


# ---- Folders ----


FILES = [grey(values, W) for values in each(GREY)]


def plain(**more):
    folder("d", FILES)
    return Values("d", GREY, Y, reader="folder", **more)


@row
def folder_dot_file():
    put("d/.DS_Store", "x")
    put("d/cat/.DS_Store", "x")
    return plain()


@row
def folder_notebook():
    put("d/.ipynb_checkpoints/a.png", FILES[3])
    return plain()


@row
def folder_hidden():
    os.makedirs("d/.ipynb_checkpoints")
    return plain()


@row
def folder_empty():
    folder("d", FILES)
    os.makedirs("d/bird")
    return Refuse("d", r"bird", reader="folder", right=Values("d", GREY, Y), shape=(1, H, W))


@row
def folder_empty_allowed():
    folder("d", FILES)
    os.makedirs("d/emu")
    return Values("d", GREY, Y, reader="folder", options=("--allow-empty",), names=["cat", "dog", "emu"], classes=3)


@row
def folder_of_class():
    folder("d", FILES)
    return Refuse("d/cat", r"class", reader="folder", shape=(1, H, W))


@row
def folder_digits():
    names = ["0"] * COUNT + ["1"] * COUNT
    folder("d/train", FILES, names)
    folder("d/test", FILES[:4] + FILES[-4:], names[:4] + names[-4:])
    for name in ("d/train", "d/test"):
        put(name + "/.DS_Store", "x")
    x = Array((8, H, W), GREY[:4].values + GREY[-4:].values)
    return Values("d", GREY, names, x, names[:4] + names[-4:], reader="folder")


@row
def folder_nested():
    folder("d", FILES)
    put("d/cat/more/a.png", FILES[0])
    x = Array((21, H, W), GREY[:COUNT].values + GREY[:1].values + GREY[COUNT:].values)
    return Refuse("d", r"more", reader="folder", right=Values("d", x, ["cat"] + Y), shape=(1, H, W))


@row
def folder_class_lacks():
    folder("d/train", FILES)
    folder("d/test", FILES[COUNT : COUNT + 3], ["dog"] * 3)
    test = Array((3, H, W), GREY[COUNT : COUNT + 3].values)
    return Refuse("d", r"cat", reader="folder", right=Values("d", GREY, Y, test, ["dog"] * 3), shape=(1, H, W))


@row
def folder_class_more():
    folder("d/train", FILES)
    folder("d/test", FILES[:3] + FILES[COUNT : COUNT + 2], ["ant", "ant", "cat", "dog", "dog"])
    return Refuse("d", r"ant", reader="folder", trains=True, shape=(1, H, W))


def two_sets(test, **more):
    folder("d/train", FILES)
    folder("d/" + test, FILES[2:5] + FILES[12:15], ["cat"] * 3 + ["dog"] * 3)
    x = Array((6, H, W), GREY[2:5].values + GREY[12:15].values)
    return Values("d", GREY, Y, x, ["cat"] * 3 + ["dog"] * 3, reader="folder", **more)


inputs(
    folder_val=lambda: two_sets("val"),
    folder_valid=lambda: two_sets("valid"),
    folder_validation=lambda: two_sets("validation"),
)


@row
def folder_three():
    folder("d/validation", FILES[:1] + FILES[COUNT : COUNT + 1], ["cat", "dog"])
    return two_sets("test", says="validation")


@row
def folder_numbers():
    names = ["1"] * 5 + ["10"] * 5 + ["2"] * 10
    folder("d", FILES, names)
    return Values("d", GREY, names, reader="folder", names=["1", "10", "2"])


@row
def folder_predict():
    def check(h):
        before = os.getcwd()
        os.chdir(h.folder)
        try:
            for i in range(20):
                put(
                    "d/%s/%02d.png" % ("2" if i % 2 else "10", i),
                    grey(
                        [
                            (k * (i % 2 + 1) * 31 + i) % 256 if k // W in (2 + 3 * (i % 2), 3) else 0
                            for k in range(W * H)
                        ],
                        W,
                    ),
                )
        finally:
            os.chdir(before)
        h.model((1, H, W), 2)
        h.train("--model", "net.yaml", "--data", "d", "--epochs", "20", "--lr", "0.05", "--batch", "8", "--out", "r")
        done = h("predict", "r", "d/2/01.png", "d/10/02.png", "--json")
        if not all("class_name" in each for each in done.json["predictions"]):
            raise Skip("predict gives numbers alone")
        equal([each["class_name"] for each in done.json["predictions"]], ["2", "10"], "names of the predicted classes")
        return "right"

    return Check(check)


@row
def folder_split():
    def check(h):
        for i, content in enumerate(FILES):
            put(h.path("d/%s/%02d.png" % (Y[i], i)), content)
        found = h("data", "d", "--json").json
        equal([found["samples"], found["test_samples"]], [16, 4], "samples")
        equal([found["per_class"], found["test_per_class"]], [[8, 8], [2, 2]], "samples of each class")
        return "right"

    return Check(check)
