"""Tries heddle on a row of the museum: right, refused, or an AssertionError that tells what is silently wrong.

What is right is never judged by an exit code. Data that are read are trained on for a step, and so are the true
numbers, written in the plainest form there is: the weights' digests must be equal, and the names of classes too. A
refusal must be one line, and match what the row says.
"""

import json
import os
import re
import subprocess

from museum_files import labels_npy, npy, put, table
from museum_table import Array, Check, Refuse, Values

LIMIT_S = 120


class Skip(Exception):
    """What a row needs is not there."""


class Done:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out.strip().split("\n")[-1])

    @property
    def digest(self):
        assert self.code == 0, self.err
        return re.findall(r"^weights_sha256  *([0-9a-f]{64})$", self.out, re.M)[-1]


class Heddle:
    """heddle in a folder of its own."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        unset = (
            "COLUMNS",
            "NO_COLOR",
            "HEDDLE_ISA",
            "HEDDLE_DATA",
            "HEDDLE_SYSROOT",
            "HEDDLE_CACHE",
            "OMP_NUM_THREADS",
        )
        self.env = {
            key: value
            for key, value in os.environ.items()
            if key not in unset and not key.startswith(("OMP_", "GOMP_", "LC_"))
        }
        self.env.update(HOME=folder, LC_ALL="C")

    def path(self, name):
        return os.path.join(self.folder, name)

    def __call__(self, *words, env=None, stdout=subprocess.PIPE, cpus=None, prepare=None):
        """Runs the command; on some CPUs alone, or after what the new process is to do first."""
        before = prepare or (cpus and (lambda: os.sched_setaffinity(0, cpus)))
        done = Done(
            subprocess.run(
                [self.program, *words],
                cwd=self.folder,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                preexec_fn=before,
            )
        )
        if done.code and "configure --with" in done.err:
            raise Skip(done.err.strip())
        return done

    def train(self, *words, **more):
        """A run on one thread, whose end is a success."""
        words = ("train", *words)
        done = self(*words, *(() if "--threads" in words or "--resume" in words else ("--threads", "1")), **more)
        assert done.code == 0, "heddle %s: %s" % (" ".join(words), done.err)
        return done

    def model(self, shape, scores, name="net.yaml", layers=()):
        lines = [
            "model: net",
            "input: %s" % list(shape),
            "layers:",
            *["  - %s" % each for each in layers],
            "  - flat: {op: flatten}",
            "  - fc: {op: linear, out: %d}" % scores,
        ]
        put(self.path(name), "\n".join(lines) + "\n")
        return name

    def refused(self, done, says, codes=(1, 2)):
        lines = done.err.strip().split("\n")
        assert done.code in codes, "expected a refusal, found exit code %d: %s%s" % (
            done.code,
            done.err,
            done.out[-300:],
        )
        assert len(lines) == 1 and lines[0].startswith("heddle: "), "expected one line, found: " + done.err
        assert re.search(says, lines[0]), "expected a line with '%s', found: %s" % (says, lines[0])
        return "refused"


def equal(found, expected, what):
    assert found == expected, "%s: expected %s, found %s" % (what, expected, found)


# ---- Data ----


def numbered(labels):
    """Labels as whole numbers, and names of classes."""
    if not any(isinstance(label, str) for label in labels):
        return labels, None
    names = sorted(set(labels), key=str.encode)
    return [names.index(label) for label in labels], names


def truth(h, v):
    """The true numbers as plain files below `truth`."""
    y, names = numbered(v.y)
    ty = v.ty and ([names.index(label) for label in v.ty] if names else v.ty)
    if isinstance(v.x, Array):
        kind = "<f4" if v.floats else "|u1"
        for end, x, labels in (("_train" if v.tx else "", v.x, y), ("_test", v.tx, ty)):
            if x:
                put(h.path("truth/x%s.npy" % end), npy(x, kind))
                put(h.path("truth/y%s.npy" % end), labels_npy(labels))
        return "truth", y, names
    heads = ["c%d" % i for i in range(len(v.x[0]))] + ["label"]
    for name, x, labels in (("train" if v.tx else "truth", v.x, y), ("test", v.tx, ty)):
        if x:
            put(h.path("truth/%s.csv" % name), table(heads, [[*row, label] for row, label in zip(x, labels)]))
    return "truth" if v.tx else "truth/truth.csv", y, names


def shape_of(x):
    if not isinstance(x, Array):
        return (1, 1, len(x[0]))
    if len(x.shape) < 3:
        return (1, 1, x.shape[-1])
    return (1, *x.shape[1:]) if len(x.shape) == 3 else (x.shape[3], *x.shape[1:3])


def run_on(h, path, model, out, options=()):
    done = h(
        "train",
        "--model",
        model,
        "--data",
        path,
        "--max-steps",
        "1",
        "--batch",
        "64",
        "--threads",
        "1",
        "--out",
        out,
        *options
    )
    if done.code:
        return done, None
    with open(h.path(out + "/run.json")) as file:
        return done, json.load(file)["data"].get("class_names")


def judge_values(h, v):
    plain, labels, names = truth(h, v)
    targets = any(isinstance(label, float) for label in labels)
    model = h.model(shape_of(v.x), 1 if targets else v.classes or max(labels) + 1)
    if targets:
        with open(h.path(model), "a") as file:
            file.write("loss: mse\n")
    right, _ = run_on(h, plain, model, "plain")
    assert right.code == 0, "the plain form: " + right.err
    done, found = run_on(h, v.path, model, "odd", v.options)
    assert done.code == 0, "expected the data to be read: " + done.err
    equal(done.digest, right.digest, "digest of the weights after a step on the true numbers")
    if names or v.names:
        equal(found, v.names or names, "names of classes")
    assert not v.says or re.search(v.says, done.out + done.err), "expected '%s' to be said: %s" % (v.says, done.out)
    return "right"


def judge_refusal(h, v):
    model = h.model(v.shape, 2)
    return h.refused(
        h("train", "--model", model, "--data", v.path, "--max-steps", "1", "--out", "odd", *v.options), v.says
    )


def judge(h, row):
    """heddle's verdict."""
    outcome = make(row, h.folder)
    if isinstance(outcome, Check):
        return outcome.try_heddle(h)
    return judge_values(h, outcome) if isinstance(outcome, Values) else judge_refusal(h, outcome)


def make(row, folder):
    """Makes the row's input in the folder."""
    before = os.getcwd()
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    try:
        outcome = row.make()
    finally:
        os.chdir(before)
    assert isinstance(outcome, (Values, Refuse, Check))
    return outcome
