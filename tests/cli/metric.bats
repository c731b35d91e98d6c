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
  need_json
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
  need_json
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200 targets
  printf 'model: r\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 2}\nloss: mse\n' >r.yaml
  "$HEDDLE" train --model r.yaml --data d --epochs 2 --metric r2 --out r --json >out
  near "$(by_definition r2 r d)" "$(json_get test_metric <out)"
  "$HEDDLE" eval r --json >out
  near "$(by_definition r2 r d)" "$(json_get r2 <out)"
}

@test "the best checkpoint and --patience follow the metric" {
  need_json
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
  need_json
  mkdir d && "$BUILDDIR/tests/bits/make_idx" d 640 200
  "$HEDDLE" train --model simplenet --data d --epochs 2 --optimizer sgd --lr 300 --metric auc --out r --json >out
  near "$(by_definition auc r d)" "$(json_get test_metric <out)"
}
