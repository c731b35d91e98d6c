"""The museum's rows of CSV files."""

from museum_files import put, table
from museum_heddle import equal
from museum_table import Check, Refuse, Values, inputs, row

COUNT = 20
X = [[i * 0.5, i * 7 % 11] for i in range(COUNT)]
Y = [i * i % 7 % 2 for i in range(COUNT)]
HEAD = ["a", "b", "label"]


def lines(x=None, y=None):
    return [[*each, label] for each, label in zip(x or X, y or Y)]


def same(content, x=None, y=None, **more):
    """The table holds these numbers."""
    put("t.csv", content)
    return Values("t.csv", x or X, y or Y, reader="csv", **more)


def refuse(content, says, right=None, **more):
    """The table is to be refused; others may find the numbers of `right`."""
    put("t.csv", content)
    return Refuse("t.csv", says, reader="csv", right=right and Values("t.csv", *right), **more)


# ---- Encodings and line ends ----


inputs(
    csv_mark_quoted=lambda: same("\ufeff" + table(['"label"', '"a"', '"b"'], [[y, *x] for x, y in zip(X, Y)])),
    csv_mark_plain=lambda: same("\ufeff" + table(["label", "a", "b"], [[y, *x] for x, y in zip(X, Y)])),
    csv_mark_crlf=lambda: same("\ufeff" + table(["label", "a", "b"], [[y, *x] for x, y in zip(X, Y)], end="\r\n")),
    csv_nul_between=lambda: refuse(table(HEAD, lines()).replace("1.5,10", "1.5,1\0000"), r"t\.csv:5:"),
    csv_nul_truncates=lambda: refuse(table(HEAD, lines()).replace("1.5,10", "1.5\0009,10"), r"t\.csv:5:"),
    csv_utf16=lambda: refuse(("\ufeff" + table(HEAD, lines())).encode("utf-16-le"), r"t\.csv"),
)


# ---- Header ----


inputs(
    csv_one_number_name=lambda: same(table(["a", "2019", "label"], lines())),
    csv_number_names=lambda: same(table(["0", "1", "class"], lines()), label="class"),
)


@row
def csv_no_header_names():
    y = [["lo", "hi"][each] for each in Y]
    return same(table(None, lines(y=y)), y=y, header=None)


inputs(
    csv_undecided_header=lambda: refuse(table(["0", "1", "2"], lines()), r"--header", right=(X, Y), label="2"),
    csv_said_header=lambda: same(table(["0", "1", "2"], lines()), options=("--header", "yes"), label="2"),
)


@row
def csv_no_header_default():
    y = [["no", "yes"][each] for each in Y]
    return same(table(None, lines(y=y)), y=y, label=-1)


inputs(
    csv_header_as_zeros=lambda: same(table(["first", "second", "label"], lines())),
    csv_more_names=lambda: refuse(table(["a", "b", "label", "d"], lines()), r"t\.csv:2:"),
    csv_doubled_name=lambda: refuse(table(["a", "a", "label"], lines()), r"'a'", right=(X, Y)),
    csv_doubled_label=lambda: refuse(table(["label", "a", "label"], lines()), r"'label'"),
    csv_hash_header=lambda: same(table(["# a", "b", "label"], lines())),
    csv_hash_name=lambda: same(table(["a", "#N", "label"], lines())),
)


# ---- Shape of rows ----


inputs(
    csv_short_row=lambda: refuse(table(HEAD, lines()[:5]) + "1.5,1\n" + table(None, lines()[6:]), r"t\.csv:7:"),
    csv_long_row=lambda: refuse(table(HEAD, lines()[:5]) + "1.5,1,0,9\n" + table(None, lines()[6:]), r"t\.csv:7:"),
    csv_trailing_commas=lambda: refuse(
        table(HEAD, lines(), end=",\n").replace("label,\n", "label\n"), r"t\.csv:2:", right=(X, Y)
    ),
)


# ---- Labels ----


@row
def csv_namibia():
    y = [["NA", "DE"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@row
def csv_late_text():
    y = ["1", "2", "unknown"] * 6
    return same(table(HEAD, lines(X[:18], y)), X[:18], y)


@row
def csv_label_decimals():
    y = [1.6 if i == 7 else each for i, each in enumerate(Y)]
    return refuse(table(HEAD, lines(y=y)), r"t\.csv:9: .*1\.6", right=(X, y), label="label")


@row
def csv_doubled_quotes():
    y = [['a "b"', "plain"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@row
def csv_quoted_line_end():
    y = [["two\nlines", "one"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y, names=["one", "two\\x0Alines"])


@row
def csv_quoted_comma():
    y = [["cat, big", "dog"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@row
def csv_label_minus():
    y = [2 * each - 1 for each in Y]
    return refuse(table(HEAD, lines(y=y)), r"-1", right=(X, y))


@row
def csv_from_one():
    y = [i % 4 + 1 for i in range(COUNT)]
    return same(table(HEAD, lines(y=y)), y=y, says=r"class(es)? .*0")


@row
def csv_label_blanks():
    y = [["item1", "item2"][each] for each in Y]
    return same("a, b, label\n" + "".join("%r, %r, %s\n" % (*x, label) for x, label in zip(X, y)), y=y)


@row
def csv_leading_zeros():
    y = [["01", "x1", "1"][i % 3] for i in range(18)]
    return same(table(HEAD, lines(X[:18], y)), X[:18], y)


@row
def csv_small_class():
    def check(h):
        rows = [[*x, int(i in (8, 9))] for i, x in enumerate(X)]
        put(h.path("t.csv"), table(HEAD, rows))
        found = h("data", "t.csv", "--json").json
        equal([found["per_class"][i] + found["test_per_class"][i] for i in (0, 1)], [18, 2], "samples of each class")
        equal(found["test_samples"], 4, "samples to test")
        assert found["test_per_class"][1] > 0 or any("fewer than two" in note for note in found["notes"]), found
        return "right"

    return Check(check)


@row
def csv_many_small():
    def check(h):
        rows = [[i * 0.5, i % 3, "c%d" % min(i // 4, 6)] for i in range(60)]
        put(h.path("t.csv"), table(HEAD, rows))
        found = h("data", "t.csv", "--json").json
        said = " ".join(found["notes"])
        for name, count in zip(found["class_names"], found["test_per_class"]):
            assert count >= 2 or "'%s'" % name in said, (name, count, said)
        return "right"

    return Check(check)


# ---- Numbers ----


inputs(
    csv_semicolons=lambda: refuse(
        "a;b;label\n" + "".join("%s;%d;%d\n" % (repr(x[0]).replace(".", ","), x[1], y) for x, y in zip(X, Y)),
        r"t\.csv:1:",
    ),
    csv_decimal_comma=lambda: refuse(
        "a,b,label\n" + "".join('"%s",%d,%d\n' % (repr(x[0]).replace(".", ","), x[1], y) for x, y in zip(X, Y)),
        r"t\.csv:2:.*0,0",
    ),
    csv_thousands=lambda: refuse(
        "a,b,label\n" + "".join('"1,%03d",%d,%d\n' % (i, x[1], y) for i, (x, y) in enumerate(zip(X, Y))),
        r"t\.csv:2:.*1,000",
    ),
)


@row
def csv_many_digits():
    x = [[0.1 * (i + 1), i * 7 % 11] for i in range(COUNT)]
    return same("a,b,label\n" + "".join("%.64f,%d,%d\n" % (*each, y) for each, y in zip(x, Y)), x)


@row
def csv_decimal_places():
    x = [[1e-10 * (i + 1), i * 7 % 11] for i in range(COUNT)]
    return same("a,b,label\n" + "".join("%.70f,%d,%d\n" % (*each, y) for each, y in zip(x, Y)), x)


@row
def csv_infinite():
    return refuse(table(HEAD, lines()).replace("1.5,10", "inf,10"), r"t\.csv:5:", trains=True)


@row
def csv_scales():
    def check(h):
        rows = [[i % 2 * 2 - 1 + i * 7919 % 100 / 400, i * 104729 % 2000003 - 1e6, i % 2] for i in range(200)]
        put(h.path("t.csv"), table(HEAD, rows))
        h.model((1, 1, 2), 2)
        found = h.train(
            "--model", "net.yaml", "--data", "t.csv", "--epochs", "20", "--lr", "0.05", "--batch", "16", "--json"
        ).json
        assert found["test_accuracy"] >= 0.95, found["test_accuracy"]
        return "right"

    return Check(check)


@row
def csv_constant():
    def check(h):
        put(h.path("t.csv"), table(HEAD, [[0.1, x[1], y] for x, y in zip(X, Y)]))
        put(h.path("u.csv"), table(HEAD, [[1234567.1, x[1], y] for x, y in zip(X, Y)]))
        h.model((1, 1, 2), 2)
        one, other = (
            h.train("--model", "net.yaml", "--data", name, "--max-steps", "2", "--out", name[0])
            for name in ("t.csv", "u.csv")
        )
        equal(one.digest, other.digest, "digest with another constant")
        return "right"

    return Check(check)


# ---- Columns ----


@row
def csv_swapped_columns():
    put("d/train.csv", table(HEAD, lines()))
    put("d/test.csv", table(["b", "a", "label"], [[x[1], x[0], y] for x, y in zip(X[:8], Y)]))
    return Values("d", X, Y, X[:8], Y[:8], reader="csv")


@row
def csv_swapped_later():
    def check(h):
        put(h.path("t.csv"), table(HEAD, lines()))
        put(h.path("u.csv"), table(["label", "b", "a"], [[y, x[1], x[0]] for x, y in zip(X, Y)]))
        h.model((1, 1, 2), 2)
        h.train("--model", "net.yaml", "--data", "t.csv", "--max-steps", "2", "--out", "r")
        one, other = (h("eval", "r", "--data", name, "--json") for name in ("t.csv", "u.csv"))
        equal(other.json, one.json, "evaluation of the reordered table")
        return "right"

    return Check(check)


@row
def csv_more_columns():
    put("d/train.csv", table(HEAD, lines()))
    put("d/test.csv", table(["a", "b", "extra", "label"], [[*x, 1, y] for x, y in zip(X, Y)]))
    return Refuse("d", r"test\.csv.*'extra'", reader="csv", right=Values("d", X, Y, X, Y))


@row
def csv_missing_column():
    def check(h):
        put(h.path("t.csv"), table(HEAD, lines()))
        put(h.path("u.csv"), table(["a", "label"], [[x[0], y] for x, y in zip(X, Y)]))
        h.model((1, 1, 2), 2)
        h.train("--model", "net.yaml", "--data", "t.csv", "--max-steps", "1", "--out", "r")
        return h.refused(h("eval", "r", "--data", "u.csv"), r"u\.csv.*'b'")

    return Check(check)


TOWNS = ["Bonn", "Oslo", "Ulm"]


@row
def csv_dummies():
    x = [[each[0], *(int(i % 3 == k) for k in range(3))] for i, each in enumerate(X)]
    put("d/train.csv", table(["a", "town", "label"], [[each[0], TOWNS[i % 3], Y[i]] for i, each in enumerate(X)]))
    put("d/test.csv", table(["a", "town", "label"], [[X[i][0], TOWNS[i % 3], Y[i]] for i in (0, 2, 3, 5)]))
    return Values("d", x, Y, [x[i] for i in (0, 2, 3, 5)], [Y[i] for i in (0, 2, 3, 5)], reader="csv_texts")


@row
def csv_category_line_end():
    towns = ["Bonn\nam Rhein", "Oslo", "Ulm"]
    rows = [[each[0], '"%s"' % towns[i % 3], Y[i]] for i, each in enumerate(X)]
    x = [[each[0], *(int(i % 3 == k) for k in range(3))] for i, each in enumerate(X)]
    put("t.csv", table(["a", "town", "label"], rows))
    return Refuse("t.csv", r"t\.csv:2: .*'town'", reader="csv_texts", right=Values("t.csv", x, Y))


@row
def csv_unseen_text():
    put("d/train.csv", table(["a", "town", "label"], [[each[0], TOWNS[i % 3], Y[i]] for i, each in enumerate(X)]))
    put(
        "d/test.csv",
        table(["a", "town", "label"], [[X[i][0], "Rome" if i == 3 else TOWNS[i % 3], Y[i]] for i in range(6)]),
    )
    return Refuse("d", r"test\.csv:5:.*Rome", reader="csv_texts", shape=(1, 1, 4))


@row
def csv_unseen_class():
    put("d/train.csv", table(HEAD, lines(y=[["cat", "dog"][each] for each in Y])))
    put("d/test.csv", table(HEAD, lines(X[:6], ["cat", "emu"] * 3)))
    return Refuse(
        "d",
        r"test\.csv.*emu",
        reader="csv",
        right=Values("d", X, [["cat", "dog"][each] for each in Y], X[:6], ["cat", "emu"] * 3),
    )


@row
def csv_class_lacks():
    def check(h):
        centre = {"cat": (0, 0), "dog": (5, 0), "emu": (0, 5)}
        names = sorted(centre)
        rows = [
            [centre[names[i % 3]][0] + i * 7 % 10 / 20, centre[names[i % 3]][1] + i * 3 % 10 / 20, names[i % 3]]
            for i in range(120)
        ]
        put(h.path("t.csv"), table(HEAD, rows))
        put(h.path("u.csv"), table(HEAD, [each for each in rows if each[2] != "cat"]))
        h.model((1, 1, 2), 3)
        h.train(
            "--model", "net.yaml", "--data", "t.csv", "--epochs", "10", "--lr", "0.1", "--batch", "16", "--out", "r"
        )
        found = h("eval", "r", "--data", "u.csv", "--json").json
        assert found["accuracy"] > 0.95, found
        return "right"

    return Check(check)


inputs(
    csv_index_column=lambda: same(table(["", *HEAD], [[i, *each] for i, each in enumerate(lines())]), says="index"),
    csv_index_from_one=lambda: same(
        table(["", *HEAD], [[i + 1, *each] for i, each in enumerate(lines())]), says="index"
    ),
    csv_missing_target=lambda: refuse(
        "a,b,target\n" + "".join("%r,%r,%s\n" % (*x, "" if i == 3 else i * 0.25) for i, x in enumerate(X)),
        r"t\.csv:5:",
        label="target",
        trains=True,
    ),
)


@row
def csv_missing_input():
    known = [x[0] for i, x in enumerate(X) if i % 5]

    def check(h):
        put(
            h.path("d/train.csv"),
            table(HEAD, [["" if i % 5 == 0 else x[0], x[1], y] for i, (x, y) in enumerate(zip(X, Y))]).replace(
                '""', ""
            ),
        )
        put(h.path("d/test.csv"), table(HEAD, lines(X[1:5], Y[1:5])))
        put(
            h.path("e/train.csv"),
            table(
                ["a", "n", "b", "label"],
                [
                    [sum(known) / len(known) if i % 5 == 0 else x[0], int(i % 5 == 0), x[1], y]
                    for i, (x, y) in enumerate(zip(X, Y))
                ],
            ),
        )
        put(h.path("e/test.csv"), table(["a", "n", "b", "label"], [[x[0], 0, x[1], y] for x, y in zip(X[1:5], Y[1:5])]))
        h.model((1, 1, 3), 2)
        one, other = (
            h.train("--model", "net.yaml", "--data", name, "--max-steps", "1", "--out", "r" + name) for name in "de"
        )
        equal(one.digest, other.digest, "digest with means and their places written out")
        return "right"

    return Check(check)


@row
def csv_missing_refused():
    return refuse(
        table(HEAD, lines()).replace("1.5,10", ",10"), r"t\.csv:5:", options=("--missing", "refuse"), trains=True
    )


# ---- Numbers to predict ----

PRICES = [1000 + 700 * i for i in range(50)]
HOUSES = [[i % 5, i * 7 % 11] for i in range(50)]


@row
def csv_whole_prices():
    def check(h):
        for name, price in (("t.csv", lambda p: p), ("u.csv", lambda p: "%d.0" % p)):
            put(h.path(name), table(["a", "b", "price"], [[*x, price(p)] for x, p in zip(HOUSES, PRICES)]))
        one, other = (
            h.train("--model", "regression", "--data", name, "--epochs", "1", "--out", "r" + name)
            for name in ("t.csv", "u.csv")
        )
        equal(one.digest, other.digest, "digest with decimals")
        equal(h("eval", "rt.csv", "--json").json["samples"], 10, "samples of the test set")
        return "right"

    return Check(check)


@row
def csv_own_test():
    def check(h):
        put(h.path("t.csv"), table(["a", "b", "price"], [[*x, p] for x, p in zip(HOUSES, PRICES)]))
        put(h.path("own.csv"), table(["a", "b", "price"], [[*x, p] for x, p in zip(HOUSES[:17], PRICES)]))
        h.train("--model", "regression", "--data", "t.csv", "--epochs", "1", "--out", "r")
        found = h("eval", "r", "--data", "own.csv", "--json").json
        each = h("predict", "r", "own.csv", "--json").json["predictions"]
        off = sum(abs(one["outputs"][0] - one["targets"][0]) for one in each) / len(each)
        equal((found["samples"], len(each)), (17, 17), "samples")
        assert abs(found["mean_absolute_error"] - off) < 1e-6 * off, (found, off)
        return "right"

    return Check(check)


@row
def csv_empty_line():
    def check(h):
        put(h.path("t.csv"), table(["a", "price"], [[x[1], p] for x, p in zip(HOUSES, PRICES)]))
        put(h.path("u.csv"), "a\n3\n\n5\n")
        h.train("--model", "regression", "--data", "t.csv", "--epochs", "1", "--out", "r")
        return h.refused(h("predict", "r", "u.csv"), r"u\.csv:3:")

    return Check(check)
