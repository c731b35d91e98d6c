"""The museum's rows of CSV files."""

from museum_files import put, table
from museum_heddle import equal
from museum_table import Check, Refuse, Values, row

COUNT = 20
X = [[i * 0.5, i * 7 % 11] for i in range(COUNT)]
Y = [i * i % 7 % 2 for i in range(COUNT)]
HEAD = ["a", "b", "label"]


def lines(x=None, y=None):
    return [[*each, label] for each, label in zip(x or X, y or Y)]


def csv(row_area_thread, did, wrong, right):
    return row("CSV", row_area_thread, did, wrong, right)


def same(content, x=None, y=None, **more):
    """The table holds these numbers."""
    put("t.csv", content)
    return Values("t.csv", x or X, y or Y, reader="csv", **more)


def refuse(content, says, right=None, **more):
    """The table is to be refused; others may find the numbers of `right`."""
    put("t.csv", content)
    return Refuse("t.csv", says, reader="csv", right=right and Values("t.csv", *right), **more)


# ---- Encodings and line ends ----


@csv(
    "pandas-dev/pandas#4793",
    "saved a table with a byte order mark before a quoted header",
    "the first name kept its quotes, and was not found",
    "the data without the mark",
)
def csv_mark_quoted():
    return same("\ufeff" + table(['"label"', '"a"', '"b"'], [[y, *x] for x, y in zip(X, Y)]))


@csv(
    "C2FO/fast-csv#131",
    "read a table that begins with a byte order mark",
    "the first column could not be found by its name",
    "the data without the mark",
)
def csv_mark_plain():
    return same("\ufeff" + table(["label", "a", "b"], [[y, *x] for x, y in zip(X, Y)]))


@csv(
    "adaltas/node-csv-parse#284",
    "read a table with a byte order mark and CRLF line ends",
    "a column's name had an invisible character in it",
    "the same data as with LF and no mark",
)
def csv_mark_crlf():
    return same("\ufeff" + table(["label", "a", "b"], [[y, *x] for x, y in zip(X, Y)], end="\r\n"))


@csv(
    "turicas/rows#273",
    "read a table exported with NUL bytes in it",
    "the reader stopped with an error that named no line",
    "refused, with the line",
)
def csv_nul_between():
    return refuse(table(HEAD, lines()).replace("1.5,10", "1.5,1\0000"), r"t\.csv:5:")


@csv(
    "pandas-dev/pandas#19886",
    "read a field with a NUL byte in the middle",
    "the rest of the field was dropped without a word",
    "refused, with the line",
)
def csv_nul_truncates():
    return refuse(table(HEAD, lines()).replace("1.5,10", "1.5\0009,10"), r"t\.csv:5:")


@csv(
    "wireservice/csvkit#927",
    "read tweets saved in UTF-16",
    "it stopped after some lines, because of NUL bytes",
    "refused, with the file",
)
def csv_utf16():
    return refuse(("\ufeff" + table(HEAD, lines())).encode("utf-16-le"), r"t\.csv")


# ---- Header ----


@csv(
    "GeoDaCenter/geoda#390",
    "opened a table in which one of the names is a number",
    "the header became a sample, and columns were named anew",
    "the first line is the header",
)
def csv_one_number_name():
    return same(table(["a", "2019", "label"], lines()))


@csv(
    "dask/dask#878",
    "read a table whose columns are called 0 and 1",
    "numbers as names were not taken for a header",
    "the first line is the header",
)
def csv_number_names():
    return same(table(["0", "1", "class"], lines()), label="class")


@csv(
    "h2oai/datatable#939",
    "read a table of numbers and texts without a header",
    "the detection of a header went wrong",
    "all lines are samples",
)
def csv_no_header_names():
    y = [["lo", "hi"][each] for each in Y]
    return same(table(None, lines(y=y)), y=y, header=None)


@csv(
    "numenta/numenta-apps#825",
    "loaded a table whose header is 0,1,2,3,4",
    "a line of numbers cannot be told from a header",
    "it asks whether there is one",
)
def csv_undecided_header():
    return refuse(table(["0", "1", "2"], lines()), r"--header", right=(X, Y), label="2")


@csv(
    "numenta/numenta-apps#825",
    "said that the line 0,1,2 is the header",
    "there was no way to say so",
    "the first line is the header",
)
def csv_said_header():
    return same(table(["0", "1", "2"], lines()), options=("--header", "yes"), label="2")


@csv(
    "pandas-dev/pandas#33188",
    "read a table without a header, with the defaults",
    "the first sample became the names of columns",
    "all lines are samples",
)
def csv_no_header_default():
    y = [["no", "yes"][each] for each in Y]
    return same(table(None, lines(y=y)), y=y, label=-1)


@csv(
    "mlpack/mlpack#2892",
    "loaded a table with a header",
    "the header became a sample of zeros",
    "the first line is the header",
)
def csv_header_as_zeros():
    return same(table(["first", "second", "label"], lines()))


@csv(
    "vincentlaucsb/csv-parser#283",
    "read a table with more names than fields",
    "the second line was taken for the header",
    "refused, with the line",
)
def csv_more_names():
    return refuse(table(["a", "b", "label", "d"], lines()), r"t\.csv:2:")


@csv(
    "ayrna/skordinal#149",
    "loaded a table whose header has a name twice",
    "the frame was silently wider than the file",
    "refused, or both columns kept as they are",
)
def csv_doubled_name():
    return refuse(table(["a", "a", "label"], lines()), r"'a'", right=(X, Y))


@csv(
    "pandas-dev/pandas#14704",
    "loaded a table whose header has the label's name twice",
    "columns were renamed, and one of them lost",
    "refused, with the name",
)
def csv_doubled_label():
    return refuse(table(["label", "a", "label"], lines()), r"'label'")


@csv(
    "h2oai/datatable#3072",
    "read a table whose header begins with #",
    "the names were dropped as a comment",
    "the first line is the header",
)
def csv_hash_header():
    return same(table(["# a", "b", "label"], lines()))


@csv(
    "numpy/numpy#13088",
    "read a table with a column called #N",
    "everything behind # was dropped, from the header too",
    "the column is called #N",
)
def csv_hash_name():
    return same(table(["a", "#N", "label"], lines()))


# ---- Shape of rows ----


@csv(
    "pandas-dev/pandas#9729",
    "read a table in which a row ends too early",
    "the missing fields were filled up without a word",
    "refused, with the line",
)
def csv_short_row():
    return refuse(table(HEAD, lines()[:5]) + "1.5,1\n" + table(None, lines()[6:]), r"t\.csv:7:")


@csv(
    "pandas-dev/pandas#41754",
    "read a table in which a row has a field too many",
    "the last field of that row was dropped",
    "refused, with the line",
)
def csv_long_row():
    return refuse(table(HEAD, lines()[:5]) + "1.5,1,0,9\n" + table(None, lines()[6:]), r"t\.csv:7:")


@csv(
    "pandas-dev/pandas#38830",
    "read a logger's table, whose rows end in a comma",
    "all columns moved by one: the first became the index",
    "refused, with the line",
)
def csv_trailing_commas():
    return refuse(table(HEAD, lines(), end=",\n").replace("label,\n", "label\n"), r"t\.csv:2:", right=(X, Y))


# ---- Labels ----


@csv(
    "wireservice/csvkit#806",
    "read a list of countries: Namibia's code is NA",
    "NA became nothing, without a word",
    "NA is a class like others",
)
def csv_namibia():
    y = [["NA", "DE"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@csv(
    "pandas-dev/pandas#13746",
    "read labels of which the first are numbers and later ones texts",
    "the type of a column depended on where the texts came",
    "all of them are names of classes",
)
def csv_late_text():
    y = ["1", "2", "unknown"] * 6
    return same(table(HEAD, lines(X[:18], y)), X[:18], y)


@csv(
    "EducationalTestingService/skll#285",
    "trained a classifier on labels of which one is 1.6",
    "1.6 counted as class 1",
    "refused, with the number",
)
def csv_label_decimals():
    y = [1.6 if i == 7 else each for i, each in enumerate(Y)]
    return refuse(table(HEAD, lines(y=y)), r"t\.csv:9: .*1\.6", right=(X, y), label="label")


@csv(
    "grayscale-lang/grayscale#2239",
    "wrote a label with quotes in it, doubled as RFC 4180 has it",
    "the doubled quotes were kept",
    'the class is called a "b"',
)
def csv_doubled_quotes():
    y = [['a "b"', "plain"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@csv(
    "pola-rs/polars#19078",
    "read a table with a line end inside a quoted field",
    "the row was split in two",
    "one row (the line end is shown as ?)",
)
def csv_quoted_line_end():
    y = [["two\nlines", "one"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y, names=["one", "two\\x0Alines"])


@csv(
    "infiniflow/ragflow#16881",
    "read a table with a comma inside a quoted field",
    "the field was split, and the row taken for a damaged one",
    "one field",
)
def csv_quoted_comma():
    y = [["cat, big", "dog"][each] for each in Y]
    return same(table(HEAD, lines(y=y)), y=y)


@csv(
    "EricFillion/happy-transformer#248",
    "trained on labels of -1 and 1",
    "training ended with a message about an index",
    "refused, with the value",
)
def csv_label_minus():
    y = [2 * each - 1 for each in Y]
    return refuse(table(HEAD, lines(y=y)), r"-1", right=(X, y))


@csv(
    "pytorch/pytorch#15666",
    "trained on classes numbered from 1 to 10",
    "the message did not say what was wrong",
    "read as they are, and class 0 is said to be empty",
)
def csv_from_one():
    y = [i % 4 + 1 for i in range(COUNT)]
    return same(table(HEAD, lines(y=y)), y=y, says=r"class(es)? .*0")


@csv(
    "ccpem/affinity-vae#156",
    "wrote names of classes with a blank behind the comma",
    "the name with the blank was another class, without samples",
    "the blank is not part of the name",
)
def csv_label_blanks():
    y = [["item1", "item2"][each] for each in Y]
    return same("a, b, label\n" + "".join("%r, %r, %s\n" % (*x, label) for x, label in zip(X, y)), y=y)


@csv(
    "sdv-dev/SDV#2780",
    "read codes with leading zeros as classes",
    "01 and 1 became the same",
    "refused, or names of their own",
)
def csv_leading_zeros():
    y = [["01", "x1", "1"][i % 3] for i in range(18)]
    return same(table(HEAD, lines(X[:18], y)), X[:18], y)


@csv(
    "scikit-learn/scikit-learn#8913",
    "split 18 samples of one class and 2 of the other into four fifths and a fifth",
    "the fifth held none of the small class, on every split",
    "as near a fifth of each class as can be, and it is said",
)
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


@csv(
    "scikit-learn/scikit-learn#18424",
    "split a set with many small classes",
    "some of the classes had no sample in the test set",
    "a class with too few to test is said by name",
)
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


@csv(
    "pola-rs/polars#6698",
    "read a French table: semicolons between, commas in numbers",
    "there was no way to read it",
    "refused, with the line",
)
def csv_semicolons():
    return refuse(
        "a;b;label\n" + "".join("%s;%d;%d\n" % (repr(x[0]).replace(".", ","), x[1], y) for x, y in zip(X, Y)),
        r"t\.csv:1:",
    )


@csv(
    "pola-rs/polars#18798",
    "read quoted numbers with a decimal comma",
    "the option for it was ignored for one type of number",
    "refused, with the line and what is there",
)
def csv_decimal_comma():
    return refuse(
        'a,b,label\n' + "".join('"%s",%d,%d\n' % (repr(x[0]).replace(".", ","), x[1], y) for x, y in zip(X, Y)),
        r"t\.csv:2:.*0,0",
    )


@csv(
    "JuliaData/CSV.jl#626",
    "read numbers with separators of thousands",
    "a column of numbers became one of texts",
    "refused, with the line and what is there",
)
def csv_thousands():
    return refuse(
        'a,b,label\n' + "".join('"1,%03d",%d,%d\n' % (i, x[1], y) for i, (x, y) in enumerate(zip(X, Y))),
        r"t\.csv:2:.*1,000",
    )


@csv(
    "Rdatatable/data.table#2629",
    "read numbers written with very many digits",
    "they were not taken for numbers, or lost their value",
    "the nearest number",
)
def csv_many_digits():
    x = [[0.1 * (i + 1), i * 7 % 11] for i in range(COUNT)]
    return same("a,b,label\n" + "".join("%.64f,%d,%d\n" % (*each, y) for each, y in zip(x, Y)), x)


@csv("NVIDIA/cudf#1109", "read decimals of more than 60 places", "the parsed values were wrong", "the nearest number")
def csv_decimal_places():
    x = [[1e-10 * (i + 1), i * 7 % 11] for i in range(COUNT)]
    return same("a,b,label\n" + "".join("%.70f,%d,%d\n" % (*each, y) for each, y in zip(x, Y)), x)


@csv(
    "brucefan1983/GPUMD#682",
    "trained on a file in which a number is inf",
    "the loss became nan, with no word about the file",
    "refused, with the line",
)
def csv_infinite():
    return refuse(table(HEAD, lines()).replace("1.5,10", "inf,10"), r"t\.csv:5:", trains=True)


@csv(
    "keras-team/keras#508",
    "trained a network on columns as they were in the file",
    "it did not converge, as they had not been scaled",
    "each column is scaled by itself",
)
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


@csv(
    "scikit-learn/scikit-learn#17794",
    "scaled a column that is constant",
    "it was divided by a deviation of nearly 0",
    "a deviation of 0 counts as 1",
)
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


@csv(
    "scikit-learn/scikit-learn#7242",
    "tested with columns in another order than in training",
    "columns were taken by place: wrong answers, no error",
    "columns are taken by name",
)
def csv_swapped_columns():
    put("d/train.csv", table(HEAD, lines()))
    put("d/test.csv", table(["b", "a", "label"], [[x[1], x[0], y] for x, y in zip(X[:8], Y)]))
    return Values("d", X, Y, X[:8], Y[:8], reader="csv")


@csv(
    "csinva/imodels#290",
    "evaluated a saved model on a table with reordered columns",
    "26 of 35 models gave answers from the wrong columns",
    "the same answers as in the first order",
)
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


@csv(
    "wfondrie/mokapot#42",
    "applied a scaler of 19 columns to 31",
    "the message spoke of numbers, not of names",
    "refused, with a name",
)
def csv_more_columns():
    put("d/train.csv", table(HEAD, lines()))
    put("d/test.csv", table(["a", "b", "extra", "label"], [[*x, 1, y] for x, y in zip(X, Y)]))
    return Refuse("d", r"test\.csv.*'extra'", reader="csv", right=Values("d", X, Y, X, Y))


@csv(
    "pycaret/pycaret#1060",
    "predicted from a table that lacks a column of training",
    "missing columns were an error, others were dropped unsaid",
    "refused, with the column's name",
)
def csv_missing_column():
    def check(h):
        put(h.path("t.csv"), table(HEAD, lines()))
        put(h.path("u.csv"), table(["a", "label"], [[x[0], y] for x, y in zip(X, Y)]))
        h.model((1, 1, 2), 2)
        h.train("--model", "net.yaml", "--data", "t.csv", "--max-steps", "1", "--out", "r")
        return h.refused(h("eval", "r", "--data", "u.csv"), r"u\.csv.*'b'")

    return Check(check)


TOWNS = ["Bonn", "Oslo", "Ulm"]


@csv(
    "pandas-dev/pandas#8918",
    "made columns of texts for training and for test apart",
    "a text that the test lacks made fewer columns there",
    "the columns of training, in both",
)
def csv_dummies():
    x = [[each[0], *(int(i % 3 == k) for k in range(3))] for i, each in enumerate(X)]
    put("d/train.csv", table(["a", "town", "label"], [[each[0], TOWNS[i % 3], Y[i]] for i, each in enumerate(X)]))
    put("d/test.csv", table(["a", "town", "label"], [[X[i][0], TOWNS[i % 3], Y[i]] for i in (0, 2, 3, 5)]))
    return Values("d", x, Y, [x[i] for i in (0, 2, 3, 5)], [Y[i] for i in (0, 2, 3, 5)], reader="csv_texts")


@csv(
    "uncharted-distil/distil#1864",
    "imported a table with line ends in some texts",
    "lines were counted as rows",
    "refused, with the column: two lines are no category",
)
def csv_category_line_end():
    towns = ["Bonn\nam Rhein", "Oslo", "Ulm"]
    rows = [[each[0], '"%s"' % towns[i % 3], Y[i]] for i, each in enumerate(X)]
    x = [[each[0], *(int(i % 3 == k) for k in range(3))] for i, each in enumerate(X)]
    put("t.csv", table(["a", "town", "label"], rows))
    return Refuse("t.csv", r"t\.csv:2: .*'town'", reader="csv_texts", right=Values("t.csv", x, Y))


@csv(
    "HealthCatalyst/healthcareai-py#416",
    "predicted from a text that training did not have",
    "it counted as the first known text",
    "refused, with the text",
)
def csv_unseen_text():
    put("d/train.csv", table(["a", "town", "label"], [[each[0], TOWNS[i % 3], Y[i]] for i, each in enumerate(X)]))
    put(
        "d/test.csv",
        table(["a", "town", "label"], [[X[i][0], "Rome" if i == 3 else TOWNS[i % 3], Y[i]] for i in range(6)]),
    )
    return Refuse("d", r"test\.csv:5:.*Rome", reader="csv_texts", shape=(1, 1, 4))


@csv(
    "apple/ml-cvnets#90",
    "had classes to test that training did not have",
    "training crashed on the GPU with a cryptic code",
    "refused, with the class",
)
def csv_unseen_class():
    put("d/train.csv", table(HEAD, lines(y=[["cat", "dog"][each] for each in Y])))
    put("d/test.csv", table(HEAD, lines(X[:6], ["cat", "emu"] * 3)))
    return Refuse(
        "d",
        r"test\.csv.*emu",
        reader="csv",
        right=Values("d", X, [["cat", "dog"][each] for each in Y], X[:6], ["cat", "emu"] * 3),
    )


@csv(
    "ultralytics/ultralytics#13936",
    "evaluated on a set that lacks one of the classes",
    "classes were numbered anew, so that right answers counted as wrong",
    "classes are found by name",
)
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


@csv(
    "mindsdb/mindsdb_python_sdk#86",
    "trained on a table to which an index had been saved",
    "the row number became a column to learn from",
    "a first column without a name that counts up is left out",
)
def csv_index_column():
    return same(table(["", *HEAD], [[i, *each] for i, each in enumerate(lines())]), says="index")


@csv(
    "huggingface/datasets#5490",
    "saved a set as CSV and loaded it again, an index in front, starting at 1",
    "the index came back as a column without a name",
    "it is left out",
)
def csv_index_from_one():
    return same(table(["", *HEAD], [[i + 1, *each] for i, each in enumerate(lines())]), says="index")


@csv(
    "Nixtla/neuralforecast#186",
    "trained with missing values among the targets",
    "the loss became nan without a word about the data",
    "refused, with the line",
)
def csv_missing_target():
    return refuse(
        "a,b,target\n" + "".join("%r,%r,%s\n" % (*x, "" if i == 3 else i * 0.25) for i, x in enumerate(X)),
        r"t\.csv:5:",
        label="target",
        trains=True,
    )


@csv(
    "Nixtla/neuralforecast#890",
    "trained with missing values among the inputs",
    "they went into training",
    "the column's mean, and a column that says where",
)
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


@csv(
    "brucefan1983/GPUMD#697",
    "asked that missing values be an error",
    "nan and inf in the input were not reported",
    "refused, with the line",
)
def csv_missing_refused():
    return refuse(
        table(HEAD, lines()).replace("1.5,10", ",10"), r"t\.csv:5:", options=("--missing", "refuse"), trains=True
    )


# ---- Numbers to predict ----

PRICES = [1000 + 700 * i for i in range(50)]
HOUSES = [[i % 5, i * 7 % 11] for i in range(50)]


@csv(
    "probabl-ai/skore#1080",
    "split a table to predict whole numbers",
    "they were taken for classes, and a warning spoke of rare ones",
    "numbers, and a fifth of all rows to test",
)
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


@csv(
    "yuqinie98/PatchTST#129",
    "evaluated on a test set of one's own",
    "the last samples were left out, unsaid, and the error looked smaller",
    "all rows count",
)
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


@csv(
    "datarobot/datarobot-user-models#581",
    "predicted from a file of one column, in which a field was empty",
    "its line was skipped, so that later predictions stood for other rows",
    "refused, with the line",
)
def csv_empty_line():
    def check(h):
        put(h.path("t.csv"), table(["a", "price"], [[x[1], p] for x, p in zip(HOUSES, PRICES)]))
        put(h.path("u.csv"), "a\n3\n\n5\n")
        h.train("--model", "regression", "--data", "t.csv", "--epochs", "1", "--out", "r")
        return h.refused(h("predict", "r", "u.csv"), r"u\.csv:3:")

    return Check(check)
