# Losses and targets: numbers instead of classes through train, eval and predict; what a loss does not take.

load cli

# model NAME OUTPUTS LOSS: writes NAME.yaml, a linear layer with this loss, for the digits.
model() {
  printf 'model: %s\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: %s}\nloss: %s\n' "$@" \
    >"$1.yaml"
}

# two_by_two FOLDER: five training and five test images of 2x2 pixels; labels or targets are to follow.
two_by_two() {
  mkdir -p "$1"
  local part
  for part in train t10k; do
    printf '\0\0\10\3\0\0\0\5\0\0\0\2\0\0\0\2aaaabbbbccccddddeeee' >"$1/$part-images-idx3-ubyte"
  done
}

# labels FOLDER L1 ... L5: of both parts, in octal.
labels() {
  local folder=$1 part
  shift
  for part in train t10k; do
    printf "\\0\\0\\10\\1\\0\\0\\0\\5$(printf '\\%s' "$@")" >"$folder/$part-labels-idx1-ubyte"
  done
}

# targets FOLDER BYTES: of both parts, printf's format of five floats, big-endian.
targets() {
  local part
  for part in train t10k; do
    printf "\\0\\0\\15\\1\\0\\0\\0\\5$2" >"$1/$part-labels-idx1-float"
  done
}

# equals A B: two numbers, but for rounding to float.
equals() {
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }'
}

ONE='\77\200\0\0'
ZERO='\0\0\0\0'

small() {
  sed 's/1, 28, 28/1, 2, 2/' "$1.yaml" >"small_$1.yaml"
}

@test "a regression: train, eval and predict print numbers" {
  "$HEDDLE" train --model regression --data "$FEW" --max-steps 60 --batch 64 --out r --json >out
  [ "$(json_get test_accuracy <out)" = null ]
  no grep -q accuracy <(head -n -1 out)
  grep -Eq '^test loss +[0-9]' out
  [ ! -e r/wrong.png ]
  [ -e r/best/model.safetensors ]
  "$HEDDLE" eval r >out
  grep -Eq '^mean absolute error +[0-9]+\.[0-9]+$' out
  no grep -q 'accuracy\|class' out
  "$HEDDLE" eval r --json >out
  [ "$(json_keys <out)" = "loss accuracy mean_absolute_error per_class confusion r2 root_mean_square_error outputs "\
"samples part" ]
  [ "$(json_get accuracy per_class <out)" = "null []" ]
  "$HEDDLE" predict r --index 3 >out
  grep -Eq '\[3\] +-?[0-9.]+ +label 7$' out
  [ "$(wc -l <out)" -eq 1 ]
  "$HEDDLE" predict r --index 3 --json >out
  [ "$(json_keys < <(json_get predictions.0 <out))" = "file index label outputs" ]
}

@test "the mean absolute error is that of the predictions" {
  two_by_two d
  targets d "$ONE$ZERO$ONE$ZERO$ONE"
  model m 1 l1
  small m
  "$HEDDLE" train --model small_m.yaml --data d --epochs 2 --out r >out
  "$HEDDLE" eval r --json >out
  equals "$(json_get loss <out)" "$(json_get mean_absolute_error <out)"
  "$HEDDLE" predict r --index 0 --index 1 --index 2 --index 3 --index 4 --json >predicted
  [ "$(json_get predictions.1.index <predicted)" = 1 ]
  local i sum=0 one
  for i in 0 1 2 3 4; do
    one=$(json_get "predictions.$i.outputs.0" <predicted)
    sum=$(awk -v s="$sum" -v y="$one" -v t=$((1 - i % 2)) 'BEGIN { d = y - t; printf "%.9f", s + (d < 0 ? -d : d) }')
  done
  equals "$(awk -v s="$sum" 'BEGIN { printf "%.9f", s / 5 }')" "$(json_get mean_absolute_error <out)"
}

@test "best and --patience go by the loss where there is no accuracy" {
  "$HEDDLE" train --model regression --data "$FEW" --lr 0.03 --max-steps 50 --batch 64 --eval-every 10 --save-every \
    10 --keep 9 --out r >out
  [ "$(readlink r/best)" = "step-$(grep -oE '^step [0-9]+: test loss [0-9.]+' out | sort -t' ' -k5g | head -n 1 |
    grep -oE '[0-9]+' | head -n 1)" ]
  grep -q '"val_loss"' <("$HEDDLE" train --model regression --data "$FEW" --max-steps 20 --val-split 0.01 --out v \
    >/dev/null; cat v/metrics.jsonl)
  no grep -q val_accuracy v/metrics.jsonl
}

@test "a single score of bce_with_logits predicts two classes" {
  two_by_two d
  labels d 1 0 1 0 1
  model m 1 bce_with_logits
  small m
  "$HEDDLE" train --model small_m.yaml --data d --epochs 40 --lr 0.1 --out r --json >out
  [ "$(json_get test_accuracy <out)" != null ]
  "$HEDDLE" eval r --json >out
  [ "$(json_get per_class <out | tr ',' '\n' | wc -l)" -eq 2 ]
  "$HEDDLE" predict r --index 3 --json >out
  [ "$(json_keys < <(json_get predictions.0 <out))" = "file index label class probabilities" ]
  [ "$(json_get predictions.0.probabilities <out | tr ',' '\n' | wc -l)" -eq 2 ]
}

@test "several scores of bce_with_logits predict a probability each" {
  mkdir d
  "$BUILDDIR/tests/bits/make_idx" d 40 20 targets
  model m 2 bce_with_logits
  "$HEDDLE" train --model m.yaml --data d --out r --json >out
  [ "$(json_get test_accuracy <out)" = null ]
  "$HEDDLE" predict r --index 1 >out
  grep -Eq '^d\[1\] +[0-9.]+ % +[0-9.]+ %   targets [0-9.]+  [0-9.]+$' <(head -n 1 out)
  "$HEDDLE" predict r --index 1 --json >out
  [ "$(json_keys < <(json_get predictions.0 <out))" = "file index probabilities targets" ]
}

@test "ignored labels count neither in the loss nor in the accuracy" {
  two_by_two d
  labels d 1 0 377 0 377
  model m 10 '{op: cross_entropy, ignore_index: 255}'
  small m
  "$HEDDLE" train --model small_m.yaml --data d --epochs 5 --out r >out
  "$HEDDLE" eval r --json >out
  [ "$(json_get confusion <out | tr -d '[]' | tr ',' '\n' | awk '{ s += $1 } END { print s }')" -eq 3 ]
  "$HEDDLE" train --model small_m.yaml --data d --epochs 60 --lr 0.1 --out right >out # all three
  [ "$("$HEDDLE" eval right --json | json_get accuracy)" = 1 ]
}

@test "a row of the confusion matrix is a label, a column a guess" {
  two_by_two d
  labels d 1 0 2 0 0
  model m 3 cross_entropy
  small m
  "$HEDDLE" train --model small_m.yaml --data d --epochs 1 --lr 0 --out r >out # takes each for one class
  "$HEDDLE" eval r --json >out
  for label in 0 1 2; do
    json_get confusion.$label <out | tr -d '[]' | tr ',' '\n' | awk '{ s += $1 } END { print s }'
  done >rows
  [ "$(xargs <rows)" = "3 1 1" ]
}

@test "batches without a label that counts change no weight" {
  two_by_two d
  labels d 377 377 377 377 377
  model m 10 '{op: cross_entropy, ignore_index: 255, label_smoothing: 0.1}'
  small m
  "$HEDDLE" train --model small_m.yaml --data d --epochs 1 --optimizer sgd --out one --json >out
  [ "$(json_get train_loss test_loss test_accuracy <out)" = "0 0 null" ]
  "$HEDDLE" train --model small_m.yaml --data d --epochs 9 --optimizer sgd --out nine >out
  [ "$("$HEDDLE" digest one)" = "$("$HEDDLE" digest nine)" ]
}

@test "--label-smoothing stands in the record, for resuming and for eval" {
  train --out whole --label-smoothing 0.2
  local wanted=$DIGEST loss
  loss=$(json_get test_loss <out)
  [ "$(json_get loss < <("$HEDDLE" eval whole --json))" = "$loss" ]
  train --out part --label-smoothing 0.2 --max-steps 30
  "$HEDDLE" train --resume part --max-steps 50 >out
  [ "$(digest_of out)" = "$wanted" ]
  train --out without
  [ "$DIGEST" != "$wanted" ]
  fails 2 train --resume part --label-smoothing 0.3
  says label-smoothing 0.2 0.3
  model m 10 '{op: cross_entropy, label_smoothing: 0.2}'
  "$HEDDLE" train --model m.yaml --data "$FEW" --max-steps 3 --out said >out
  wanted=$(digest_of out)
  model m 10 '{op: cross_entropy, label_smoothing: 0.7}'
  "$HEDDLE" train --model m.yaml --data "$FEW" --max-steps 3 --label-smoothing 0.2 --out told >out
  [ "$(digest_of out)" = "$wanted" ]
}

@test "losses and data that do not fit" {
  mkdir floats
  "$BUILDDIR/tests/bits/make_idx" floats 40 20 targets
  model m 10 mse
  fails 1 train --model m.yaml
  says m.yaml "one output" "mse" "found 10" "out: 1"
  model m 10 cross_entropy
  fails 1 train --model m.yaml --data floats
  says "class labels" "are floats" "loss: mse"
  model m 3 huber
  fails 1 train --model m.yaml --data floats
  says "2 outputs" "found 3" "out: 2"
  model m 1 bce_with_logits
  fails 1 train --model m.yaml
  says "labels 0 and 1" "cross_entropy"
  model m 9 cross_entropy
  fails 1 train --model m.yaml
  says "at least 10 scores" "found 9" "out: 10"
  model m 10 '{op: cross_entropy, ignore_index: 9}'
  "$HEDDLE" train --model m.yaml --data "$FEW" --max-steps 2 --out r >out
  fails 2 train --model regression --label-smoothing 0.1
  says "--label-smoothing" cross_entropy mse
  fails 2 train --label-smoothing 1.5
  says "--label-smoothing" 1.5
  "$HEDDLE" train --model regression --data "$FEW" --max-steps 2 --out n >out
  fails 1 eval n --data floats
  says "2 outputs" "found 1"
}

@test "targets that are no numbers, too few, or of the wrong type" {
  two_by_two d
  model m 1 mse
  small m
  targets d "$ONE$ZERO\\177\\300\\0\\0$ZERO$ONE"
  fails 1 train --model small_m.yaml --data d
  says train-labels-idx1-float finite NaN "index 2"
  targets d "$ONE$ZERO$ONE$ZERO\\377\\200\\0\\0"
  fails 1 train --model small_m.yaml --data d
  says infinity "index 4"
  targets d "$ONE$ZERO$ONE$ZERO\\77"
  fails 1 train --model small_m.yaml --data d
  says train-labels-idx1-float "20 bytes"
  targets d "$ONE$ZERO$ONE$ZERO$ONE"
  printf '\0\0\15\1\0\0\0\4%b' "$ONE$ZERO$ONE$ZERO" >d/train-labels-idx1-float
  fails 1 train --model small_m.yaml --data d
  says "5 labels" "found 4"
  targets d "$ONE$ZERO$ONE$ZERO$ONE"
  labels d 1 0 1 0 1
  fails 1 train --model small_m.yaml --data d
  says "one file of labels" train-labels-idx1-ubyte train-labels-idx1-float
  rm d/*-float d/t10k-labels-idx1-ubyte
  fails 1 train --model small_m.yaml --data d
  says t10k-labels-idx1-ubyte t10k-labels-idx1-float
  labels d 1 0 1 0 12
  model m 10 cross_entropy
  small m
  fails 1 train --model small_m.yaml --data d
  says "at least 11 scores" "found 10" "out: 11" "ignore_index: 10"
  rm d/*labels*
  targets d "$ONE$ZERO$ONE$ZERO\\100\\0\\0\\0"
  model m 1 bce_with_logits
  small m
  fails 1 train --model small_m.yaml --data d
  says "from 0 to 1" "found 2" "index 4" mse
}

@test "a loss that is not finite ends the run and keeps the last good weights" {
  fails 1 train --model regression --optimizer sgd --lr 1e6 --max-steps 50 --save-every 1 \
    --out r
  says "expected finite numbers" "--lr"
  step=$(readlink r/last)
  step=${step#step-}
  [ "$step" -gt 0 ]
  "$HEDDLE" train --model regression --optimizer sgd --lr 1e6 --max-steps "$step" --out good >out
  [ "$("$HEDDLE" digest r)" = "$(digest_of out)" ]
}
