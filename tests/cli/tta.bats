# --tta: the scores of an evaluation are the mean of those of views, whose pixels are moved here by hand; its loss,
# accuracy and probabilities are those of that mean, for each layout; what is refused.

load cli

setup_file() {
  command -v python3 >/dev/null || skip "python3 is not installed"
}

make_data() {
  mkdir data
  "$BUILDDIR/tests/bits/make_idx" data 96 40
}

small() { # RUN OPTIONS...
  run=$1
  shift
  "$HEDDLE" train --data data --model lenet5 --batch 32 --epochs 1 --lr 0.01 --out "$run" --json "$@" >$run.out
}

# views DATA: folders view0 to view5 with the test images as the six views have them.
views() {
  python3 - "$1" <<'END'
import os, shutil, sys
head, side = 16, 28
images = open(sys.argv[1] + "/t10k-images-idx3-ubyte", "rb").read()
def at(i): # reflected
    return -i if i < 0 else 2 * side - 2 - i if i >= side else i
for v, (move, mirror) in enumerate((m, f) for m in (0, 1, -1) for f in (0, 1)):
    folder = f"view{v}"
    shutil.copytree(sys.argv[1], folder)
    out = bytearray(images[:head])
    for first in range(head, len(images), side * side):
        for y in range(side):
            for x in range(side):
                column = side - 1 - x if mirror else x
                out.append(images[first + at(y - move) * side + at(column - move)])
    with open(folder + "/t10k-images-idx3-ubyte", "wb") as file:
        file.write(out)
END
}

# mean VIEWS: the mean of the scores of view0, view1 ..., from files scores0, scores1 ..., to standard output; its loss
# and accuracy to the file judged.
mean() {
  python3 - "$1" <<'END'
import json, math, struct, sys
count = int(sys.argv[1])
rows = [struct.unpack("<%df" % (len(raw) // 4), raw) for raw in (open(f"scores{v}", "rb").read() for v in range(count))]
share = [0.5, 0.5] if count == 2 else [0.25, 0.25] + [0.125] * 4
single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
sums = [0.0] * len(rows[0])
for s, row in zip(share, rows):
    sums = [single(a + s * b) for a, b in zip(sums, row)]
sys.stdout.buffer.write(struct.pack("<%df" % len(sums), *sums))
labels = open("data/t10k-labels-idx1-ubyte", "rb").read()[8:]
loss, right, first = 0, 0, None
for i, label in enumerate(labels):
    z = sums[10 * i:10 * i + 10]
    total = math.fsum(math.exp(v - max(z)) for v in z)
    loss += math.log(total) + max(z) - z[label]
    right += z.index(max(z)) == label
    first = first or [math.exp(v - max(z)) / total for v in z]
json.dump([loss / len(labels), right / len(labels), first], open("judged", "w"))
END
}

# judges FILE: the loss and the accuracy in JSON are those of the file judged.
judges() {
  python3 - "$1" <<'END'
import json, sys
found, (loss, accuracy, _) = json.loads(open(sys.argv[1]).read().splitlines()[-1]), json.load(open("judged"))
loss_found, right = found.get("test_loss", found.get("loss")), found.get("test_accuracy", found.get("accuracy"))
assert abs(loss_found - loss) < 1e-5 and abs(right - accuracy) < 1e-9, (found, loss, accuracy)
END
}

@test "scores are the mean of the views' scores, bit for bit, and are judged as such" {
  make_data
  small plain
  views data
  for v in 0 1 2 3 4 5; do "$BUILDDIR/tests/golden/print_scores" plain view$v >scores$v; done
  for tta in mirror mirror+translate; do
    "$BUILDDIR/tests/golden/print_scores" plain data $tta >found
    mean $([ $tta = mirror ] && echo 2 || echo 6) >wanted
    cmp found wanted
    "$HEDDLE" eval plain --tta $tta --json >evaluated
    judges evaluated
    for threads in 1 3; do
      "$HEDDLE" eval plain --tta $tta --threads $threads --json >again
      cmp evaluated again
    done
    "$HEDDLE" predict plain --tta $tta --index 0 --json >predicted
    python3 -c 'import json
found, wanted = json.load(open("predicted"))["predictions"][0]["probabilities"], json.load(open("judged"))[2]
assert max(abs(a - b) for a, b in zip(found, wanted)) < 1e-5, (found, wanted)'
  done
  no cmp -s found scores0
}

@test "a run evaluates so, with weights that are those of a run without, and so does what evaluates it" {
  make_data
  small plain
  small viewed --tta mirror+translate --val-split 0.1 --metric f1
  "$HEDDLE" eval viewed --json >evaluated
  [ "$(json_get loss <evaluated)" = "$(tail -n 1 viewed.out | json_get test_loss)" ]
  "$HEDDLE" eval viewed --tta none --json >without
  [ "$(json_get loss <evaluated)" != "$(json_get loss <without)" ]
  for layout in "--threads 1" "--procs 2" "--workers 2"; do
    small again --tta mirror+translate --val-split 0.1 --metric f1 $layout
    for key in test_loss test_accuracy val_loss test_metric weights_sha256; do
      [ "$(tail -n 1 again.out | json_get $key)" = "$(tail -n 1 viewed.out | json_get $key)" ]
    done
    rm -r again
  done
  small same --tta mirror
  [ "$(tail -n 1 same.out | json_get weights_sha256)" = "$(tail -n 1 plain.out | json_get weights_sha256)" ]
}

@test "targets that transforms make, and those of other losses, are judged too" {
  make_data
  small hard --tta mirror
  small soft --tta mirror --transforms '[to_float, normalise, one_hot]'
  python3 -c 'import json
a, b = (json.loads(open(f).read().splitlines()[-1])["test_loss"] for f in ("hard.out", "soft.out"))
assert abs(a - b) < 1e-5, (a, b)'
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 1}\nloss: mse\n' \
    >mse.yaml
  small numbers --model mse.yaml --tta mirror+translate
  "$HEDDLE" eval numbers --json >evaluated
  [ "$(json_get loss <evaluated)" = "$(tail -n 1 numbers.out | json_get test_loss)" ]
}

@test "wrong names are refused, rows of numbers, and another choice for a resumed run" {
  make_data
  small plain --max-steps 1
  fails 2 eval plain --tta miror
  says "found 'miror'; did you mean 'mirror'?"
  fails 2 train --tta both
  says "--tta expects none|mirror|mirror+translate, found 'both'"
  printf 'label,a,b\n0,1,2\n1,2,3\n0,3,4\n1,4,5\n0,5,6\n1,7,8\n0,9,1\n1,2,2\n0,1,1\n1,3,3\n' >rows.csv
  printf 'model: m\ninput: [1, 1, 2]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 2}\n' >m.yaml
  fails 2 train --model m.yaml --data rows.csv --tta mirror
  says "--tta mirror expects images, found rows of numbers in rows.csv; leave it out"
  fails 2 train --resume plain --tta mirror --max-steps 2
  says "expected tta none as in that run, found mirror"
}
