# --metric: F1, AUC and R2 by their definitions, from the scores of a checkpoint; what they choose; what has none.

load cli

setup_file() {
  command -v python3 >/dev/null || skip "python3 is not installed"
}

# by_definition METRIC RUN DATA: the metric of the run's last checkpoint on the test set, from its scores and labels.
by_definition() {
  "$BUILDDIR/tests/golden/print_scores" "$2" "$3" >scores.raw
  python3 - "$1" "$3" <<'END'
import math, struct, sys
metric, data = sys.argv[1:]
def idx(path, code):
    raw = open(path, "rb").read()
    dims = struct.unpack(">%dI" % raw[3], raw[4:4 + 4 * raw[3]])
    body = raw[4 + 4 * raw[3]:]
    return dims, struct.unpack(">%d%s" % (len(body) // struct.calcsize(code), code), body)
raw = open("scores.raw", "rb").read()
scores = struct.unpack("<%df" % (len(raw) // 4), raw)
if metric == "r2":
    (n, outputs), y = idx(data + "/t10k-labels-idx2-float", "f")
    parts = []
    for k in range(outputs):
        is_, said = y[k::outputs], scores[k::outputs]
        mean = math.fsum(is_) / n
        parts.append(1 - math.fsum((a - b) ** 2 for a, b in zip(is_, said)) / math.fsum((a - mean) ** 2 for a in is_))
    print(math.fsum(parts) / outputs)
    sys.exit()
(n,), labels = idx(data + "/t10k-labels-idx1-ubyte", "B")
classes = len(scores) // n
rows = [scores[i * classes:(i + 1) * classes] for i in range(n)]
if metric == "f1":
    guess = [max(range(classes), key=lambda k: r[k]) for r in rows]
    parts = []
    for c in set(labels) | set(guess):
        tp = sum(a == c and b == c for a, b in zip(labels, guess))
        parts.append(2 * tp / (sum(a == c for a in labels) + sum(b == c for b in guess)))
else:
    parts = []
    for c in sorted(set(labels)):
        others_of = [[v for k, v in enumerate(r) if k != c] for r in rows]  # log odds: probabilities round to ties
        p = [r[c] - max(o) - math.log(math.fsum(math.exp(v - max(o)) for v in o)) for r, o in zip(rows, others_of)]
        ours = [v for v, l in zip(p, labels) if l == c]
        others = [v for v, l in zip(p, labels) if l != c]
        parts.append(sum((a > b) + 0.5 * (a == b) for a in ours for b in others) / len(ours) / len(others))
print(math.fsum(parts) / len(parts))
END
}

# near A B: equal within a millionth.
near() {
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }' ||
    { echo "expected $1, found $2"; return 1; }
}

@test "F1 and AUC are what their definitions say, in eval, in metrics and on any layout" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200
  for metric in f1 auc; do
    "$HEDDLE" train --model simplenet --data d --epochs 2 --metric $metric --out $metric --json >out
    wanted=$(by_definition $metric $metric d)
    near "$wanted" "$(json_get test_metric <out)"
    [ "$(json_get metric <out)" = $metric ]
    near "$wanted" "$(tail -n 1 $metric/metrics.jsonl | json_get test_$metric)"
    near "$wanted" "$(tail -n 1 $metric/history.jsonl | json_get test_$metric)"
    "$HEDDLE" eval $metric --json >out
    near "$wanted" "$(json_get $metric <out)"
    "$HEDDLE" train --model simplenet --data d --epochs 2 --metric $metric --out $metric-2 --procs 2 --threads 1 >out
    cmp <(grep evaluation $metric/metrics.jsonl) <(grep evaluation $metric-2/metrics.jsonl)
  done
}

@test "R2 is what its definition says" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200 targets
  printf 'model: r\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 2}\nloss: mse\n' >r.yaml
  "$HEDDLE" train --model r.yaml --data d --epochs 2 --metric r2 --out r --json >out
  near "$(by_definition r2 r d)" "$(json_get test_metric <out)"
  "$HEDDLE" eval r --json >out
  near "$(by_definition r2 r d)" "$(json_get r2 <out)"
}

@test "the best checkpoint and --patience follow the metric" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 320 100
  "$HEDDLE" train --model simplenet --data d --epochs 8 --lr 0.05 --val-split 0.2 --metric f1 --keep 99 --out r >out
  best=$(grep evaluation r/metrics.jsonl | while read -r line; do
    printf '%s\n' "$line" | json_get val_f1 step
  done | sort -k 1,1gr -k 2,2g | head -n 1 | cut -d ' ' -f 2)
  [ "$(readlink r/best)" = "step-$best" ]
  "$HEDDLE" train --model simplenet --data d --epochs 30 --lr 0.05 --metric f1 --patience 2 --out p >out
  grep -q '^ended early: no better test f1 for 2 epochs$' out
}

@test "a model without it is refused, and so is another metric for a resumed run" {
  printf 'model: r\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 1}\nloss: mse\n' >r.yaml
  fails 2 train --model r.yaml --metric auc --out r
  says "--metric auc expects a model that predicts classes"
  fails 2 train --model simplenet --metric r2 --out r
  says "--metric r2 expects a model that predicts numbers"
  fails 2 train --model simplenet --metric f2 --out r
  train --out s --metric f1 --max-steps 10
  fails 2 train --resume s --metric auc --max-steps 20
  says "--metric"
}

@test "AUC orders samples by their scores, also where probabilities are 0 or 1 but for rounding" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200
  "$HEDDLE" train --model simplenet --data d --epochs 2 --optimizer sgd --lr 300 --metric auc --out r --json >out
  near "$(by_definition auc r d)" "$(json_get test_metric <out)"
}

# several_labels FOLDER: in place of a label floats, 1 where the digit is odd, is above 4, is 10, and for all.
several_labels() {
  python3 - "$1" <<'END'
import os, struct, sys
for part in ("train", "t10k"):
    raw = open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "rb").read()
    digits = raw[8:]
    of = [float(x) for d in digits for x in (d % 2, d > 4, d == 10, 1)]
    with open(f"{sys.argv[1]}/{part}-labels-idx2-float", "wb") as out:
        out.write(struct.pack(">4B2I", 0, 0, 13, 2, len(digits), 4) + struct.pack(f">{len(of)}f", *of))
    os.remove(f"{sys.argv[1]}/{part}-labels-idx1-ubyte")
END
}

@test "labels of which a sample may have several: F1 and AUC of each, macro and micro, by their definitions" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200
  several_labels d
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 4}\n'\
'loss: bce_with_logits\n' >m.yaml
  "$HEDDLE" train --model m.yaml --data d --epochs 2 --metric f1 --out r --json >out
  near "$(json_get test_metric <out)" "$("$HEDDLE" eval r --json | json_get f1)"
  "$BUILDDIR/tests/golden/print_scores" r d >scores.raw
  "$HEDDLE" eval r --json >eval
  python3 - eval <<'END'
import json, math, struct, sys
eval_ = json.load(open(sys.argv[1]))
raw = open("scores.raw", "rb").read()
scores = struct.unpack("<%df" % (len(raw) // 4), raw)
targets = struct.unpack(">800f", open("d/t10k-labels-idx2-float", "rb").read()[12:])
def f1(is_, said):
    tp = sum(a == 1 and s > 0 for a, s in zip(is_, said))
    of = sum(a == 1 for a in is_) + sum(s > 0 for s in said)
    return 2 * tp / of if of else None
def auc(is_, said):
    yes = [s for a, s in zip(is_, said) if a == 1]
    no = [s for a, s in zip(is_, said) if a != 1]
    pairs = sum((a > b) + 0.5 * (a == b) for a in yes for b in no)
    return pairs / len(yes) / len(no) if yes and no else None
def near(a, b):
    assert (a is None and b is None) or abs(a - b) < 1e-9, (a, b)
parts = {"f1": [], "auc": []}
for k, label in enumerate(eval_["labels"]):
    for name, of in (("f1", f1), ("auc", auc)):
        wanted = of(targets[k::4], scores[k::4])
        near(label[name], wanted)
        parts[name] += [wanted] if wanted is not None else []
    assert label["positives"] == sum(targets[k::4])
for name, of in (("f1", f1), ("auc", auc)):
    near(eval_[name], math.fsum(parts[name]) / len(parts[name]))
    near(eval_[name + "_micro"], of(targets, scores))
assert len(parts["auc"]) == 2
END
  "$HEDDLE" eval r >out
  grep -q 'note: AUC is not defined for 2 of 4 labels, first for 2: its targets are all equal; the mean leaves them '\
'out' out
  no grep -qi nan out
  for layout in "--threads 1" "--threads 3"; do
    "$HEDDLE" eval r --json $layout >other
    cmp eval other
  done
  "$HEDDLE" train --model m.yaml --data d --epochs 2 --metric f1 --out r2 --procs 2 --threads 1 >out
  [ "$(tail -n 1 r/history.jsonl | json_get scores outputs)" = "$(tail -n 1 r2/history.jsonl |
    json_get scores outputs)" ]
  grep -q '<th>label</th><th>samples with it</th><th>F1</th><th>AUC</th>' r/report.html
}

@test "a regression: the errors of each output, targets beside them, and a picture in the report" {
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200 targets
  printf 'model: r\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 2}\nloss: mse\n' >r.yaml
  "$HEDDLE" train --model r.yaml --data d --epochs 2 --out r >out
  "$BUILDDIR/tests/golden/print_scores" r d >scores.raw
  "$HEDDLE" eval r --json >eval
  "$HEDDLE" predict r --index 7 --json >item
  python3 - <<'END'
import json, math, struct
eval_, item = json.load(open("eval")), json.load(open("item"))["predictions"][0]
raw = open("scores.raw", "rb").read()
scores = struct.unpack("<%df" % (len(raw) // 4), raw)
targets = struct.unpack(">400f", open("d/t10k-labels-idx2-float", "rb").read()[12:])
mae, rmse = [], []
for k, output in enumerate(eval_["outputs"]):
    off = [s - t for s, t in zip(scores[k::2], targets[k::2])]
    mae.append(math.fsum(map(abs, off)) / 200)
    rmse.append(math.sqrt(math.fsum(x * x for x in off) / 200))
    assert abs(output["mean_absolute_error"] - mae[k]) < 1e-8 and abs(output["root_mean_square_error"] - rmse[k]) < 1e-8
assert abs(eval_["mean_absolute_error"] - sum(mae) / 2) < 1e-8
assert abs(eval_["root_mean_square_error"] - sum(rmse) / 2) < 1e-8
assert all(abs(a - b) < 1e-6 for a, b in zip(item["targets"], targets[14:16])), item
END
  "$HEDDLE" predict r --index 7 >out
  grep -Eq '   targets -?[0-9.e-]+  -?[0-9.e-]+$' out
  grep -q 'Target and output 0 of the test set, R2' r/report.html
  [ "$(grep -o 'class="dot f0" fill-opacity' r/report.html | wc -l)" -eq 400 ]
  [ "$("$HEDDLE" eval r --json --threads 1)" = "$("$HEDDLE" eval r --json --threads 3)" ]
}
