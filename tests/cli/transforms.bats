# Lists of transforms as users write them: in a file of settings, in a separate file, on the command line; what is
# said of those that are wrong, and that evaluation and prediction follow the run's.

load cli

RUN="--data data --batch 32 --epochs 1 --model mlp"

make_data() {
  mkdir data
  "$BUILDDIR/tests/bits/make_idx" data 96 32
}

# run_digest OPTIONS...: that of a run.
run_digest() {
  rm -rf run
  "$HEDDLE" train $RUN --json --out run "$@" >out
  tail -n 1 out | sed 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/'
}

@test "a list has one meaning wherever it stands, under torchvision's names too" {
  make_data
  list='[{random_crop: {size: 28, padding: 2}}, {rotation: {degrees: [-5, 5]}}, to_float, normalise]'
  printf -- '- random_crop:\n    padding: 2\n    size: [28, 28]\n- random_rotation: 5\n- to_tensor\n'\
'- normalize: computed\n' >list.yaml
  { echo 'transforms:'; sed 's/^/  /' list.yaml; } >settings.yaml
  echo 'transforms: list.yaml' >named.yaml
  wanted=$(run_digest --transforms "$list")
  [ "$(run_digest --transforms list.yaml)" = "$wanted" ]
  [ "$(run_digest --config settings.yaml)" = "$wanted" ]
  [ "$(run_digest --config named.yaml)" = "$wanted" ]
  [ "$(run_digest --transforms "$list" --seed 1)" != "$wanted" ]
}

@test "the list that a run has anyway changes nothing" {
  make_data
  [ "$(run_digest --transforms '[to_float, normalise]')" = "$(run_digest)" ]
  [ "$(run_digest --eval-transforms '[to_float, normalise]')" = "$(run_digest)" ]
  [ "$(run_digest --transforms '[to_float]')" != "$(run_digest)" ]
}

@test "a wrong list is refused with its line, whether its parameters are wrong or it does not fit the images" {
  make_data
  printf 'lr: 0.1\ntransforms:\n  - to_float\n  - rotation: {degreees: 3}\n' >c.yaml
  fails 2 train $RUN --config c.yaml
  says "c.yaml:4: expected a known key, found 'degreees'; did you mean 'degrees'?"
  printf 'transforms:\n  - to_float\n\n  # too large\n  - random_crop:\n      size: 40\n' >c.yaml
  fails 1 train $RUN --config c.yaml
  says "c.yaml:5: expected a random_crop of at most 28x28" "found 40x40"
  printf -- '- to_float\n- pad: x\n' >l.yaml
  fails 1 train $RUN --transforms l.yaml
  says "l.yaml:2: expected a whole number" "found 'x'"
  fails 1 train $RUN --transforms '[to_float, {centre_crop: 40}]'
  says "--transforms:2: expected a centre_crop of at most 28x28"
  fails 2 train $RUN --transforms '[to_flot]'
  says "expected a transform, found 'to_flot'; did you mean 'to_float'?"
  fails 2 train $RUN --transforms '[blur]'
  says "expected a transform, found 'blur'; there are to_float, normalise, "
  fails 2 train $RUN --transforms to_float
  says "expected a list as transforms"
  fails 1 train $RUN --transforms nowhere.yaml
  says "nowhere.yaml: expected a readable YAML file"
  fails 2 train $RUN --eval-transforms '[horizontal_flip, to_float]'
  says "expected no random transform in evaluation, found horizontal_flip"
  fails 1 train $RUN --transforms '[normalise]'
  says "--transforms:1: expected numbers from 0 to 1 for normalise, found bytes" "put to_float before it"
}

@test "images and targets must be what the model takes, behind the transforms" {
  make_data
  printf 'model: fixed\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' \
    >fixed.yaml
  local RUN="${RUN/mlp/fixed.yaml}"
  fails 1 train $RUN --transforms '[{pad: 2}, to_float]'
  says "expected the input 1x32x32 of the data set" "through its transforms, found input 1x28x28"
  fails 1 train $RUN --transforms '[to_float, {one_hot: 12}]'
  says "expected 12 outputs for the targets" "found 10"
  fails 2 train $RUN --transforms '[to_float, one_hot, mixup]' --eval-transforms '[to_float]'
  says "--eval-transforms expects one_hot if --transforms has it"
  fails 1 train $RUN --transforms '[{centre_crop: 28}, to_float]' --eval-transforms '[{centre_crop: 27}, to_float]'
  says "expected the input 1x27x27"
}

@test "a model that fits its data fits what is behind the transforms" {
  make_data
  "$HEDDLE" train $RUN --out a --transforms '[{pad: 2}, to_float, {one_hot: 12}]' >out
  grep -q 'input: \[1, 32, 32\].*out: 12}' a/run.json
}

@test "evaluation and prediction go through what the run's evaluation did" {
  make_data
  printf 'model: small\ninput: [1, 20, 20]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' \
    >small.yaml
  "$HEDDLE" train --model small.yaml --data data --batch 32 --epochs 2 --out run --json \
    --transforms '[{random_crop: 20}, horizontal_flip, to_float, {normalise: {mean: 0.2, std: 0.4}}]' >out
  "$HEDDLE" eval run --json >evaluated
  grep -o '"loss": [0-9.]*' evaluated >one
  tail -n 1 out | sed 's/.*"test_loss": \([0-9.]*\).*/"loss": \1/' >two
  cmp one two
  "$HEDDLE" predict run --index 3 --json | grep -q '"predictions"'
  "$HEDDLE" predict run --index 3 --data data --json | grep -q '"class"'
}

@test "cross_entropy takes numbers made of labels as probabilities" {
  make_data
  "$HEDDLE" train $RUN --json --out run --transforms '[to_float, normalise, one_hot]' >out
  "$HEDDLE" train $RUN --json --out hard >hard.out
  for key in train_loss test_loss test_accuracy; do
    soft=$(tail -n 1 out | sed "s/.*\"$key\": \([0-9.]*\).*/\1/")
    hard=$(tail -n 1 hard.out | sed "s/.*\"$key\": \([0-9.]*\).*/\1/")
    awk "BEGIN { exit !($soft - $hard < 1e-5 && $hard - $soft < 1e-5) }"
  done
  "$HEDDLE" eval run --json | grep -q "\"accuracy\": $soft"
  "$HEDDLE" predict run --index 3 --json | grep -q '"class"'
}

@test "a loss on numbers per class is judged by the classes that labels were" {
  make_data
  printf 'model: soft\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n'\
'loss: mse\n' >soft.yaml
  "$HEDDLE" train --model soft.yaml --data data --batch 32 --epochs 30 --lr 0.003 --out run --json \
    --transforms '[to_float, normalise, one_hot, {mixup: 0.2}]' >out
  accuracy=$(tail -n 1 out | sed 's/.*"test_accuracy": \([0-9.a-z]*\).*/\1/')
  [ "$(echo "$accuracy" | cut -c1-3)" != nul ]
  awk "BEGIN { exit !($accuracy > 0.3) }"
  "$HEDDLE" eval run --json | grep -q "\"accuracy\": $accuracy"
}
