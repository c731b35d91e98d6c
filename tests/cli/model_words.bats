# Networks that fit their data: inputs, outputs and the loss of built-in models and of files come from the data.

load cli

# classes FILE: two columns, of which the first decides between three classes.
classes() {
  awk 'BEGIN { print "size,weight,kind"
    for (i = 0; i < 300; i++) printf "%d,%.2f,%s\n", i % 6, (i * 7919) % 80000 + i / 7, 
        substr("abc", int(i % 6 / 2) + 1, 1) }' >"$1"
}

# numbers FILE: two columns, and a sum of them.
numbers() {
  awk 'BEGIN { print "x,y,sum"
    for (i = 0; i < 300; i++) printf "%d,%d,%.2f\n", i % 7, i % 11, (2 * (i % 7) - i % 11) / 4 }' >"$1"
}

# run_of ARGS...: trains for some epochs; what it prints in `out`.
run_of() { "$HEDDLE" train --epochs 20 --lr 0.02 --batch 32 --json "$@" >out 2>err || { cat err; return 1; }; }

yaml_of() { sed -n 's/.*"model_yaml": "\(.*\)",\{0,1\}$/\1/p' "$1/run.json"; }

words() { printf '%s\n' "model: words" "input: data" "layers:" "  - fc1: {op: linear, out: 16}" "  - relu: {op: relu}" \
  "  - fc2: {op: linear, out: classes}" >words.yaml; }

@test "a table and a built-in model are a classifier in one command" {
  classes mine.csv
  run_of --model mlp --data mine.csv --out r
  [ "$(tail -n 1 out | json_get test_accuracy)" = 1 ]
  [[ "$(yaml_of r)" == *'input: [2]\n'*'out: 3}'* ]]
  no grep -q 'loss:' <(yaml_of r)
  "$HEDDLE" eval r >out
  grep -q '^accuracy  100.00 %' out
  "$HEDDLE" export r --onnx r.onnx >out
  "$HEDDLE" export r --c r.c >out
  is_verified r
}

@test "numbers to predict have the loss mse, which is said" {
  numbers sums.csv
  run_of --model mlp --data sums.csv --out r
  grep -q 'the loss is mse, since the targets of sums.csv are numbers; --loss names another' out
  [[ "$(yaml_of r)" == *'out: 1}\nloss: mse\n' ]]
  awk -v l="$(tail -n 1 out | json_get test_loss)" 'BEGIN { exit !(l < 0.2) }'
  digest=$(digest_of out)
  for layout in "--threads 2" "--procs 2" "--stages 2 --threads 2"; do
    run_of --model mlp --data sums.csv --out "r$layout" $layout
    [ "$(digest_of out)" = "$digest" ]
  done
  run_of --model mlp --data sums.csv --out c --max-steps 30
  "$HEDDLE" train --resume c --max-steps 160 >out
  [ "$(digest_of out)" = "$digest" ]
  run_of --model regression --data sums.csv --out g
  no grep -q 'the loss is' out
  run_of --model linear --data sums.csv --out l
  awk -v l="$(tail -n 1 out | json_get test_loss)" 'BEGIN { exit !(l < 0.1) }'
}

@test "built-in models take pictures of any shape, with the digests of MNIST's shape as they were" {
  "$HEDDLE" train --model mlp --data random:3x16x16:7 --max-steps 3 --out p >out
  [[ "$(yaml_of p)" == *'input: [3, 16, 16]\n'*'out: 7}'* ]]
  printf '%s\n' "model: mlp" "input: [1, 28, 28]" "layers:" "  - flat: {op: flatten}" \
    "  - fc1: {op: linear, out: 128}" \
    "  - relu: {op: relu}" "  - fc2: {op: linear, out: 10}" >before.yaml
  "$HEDDLE" train --model before.yaml --max-steps 20 --out a >out
  digest=$(digest_of out)
  "$HEDDLE" train --model mlp --max-steps 20 --out b >out
  [ "$(digest_of out)" = "$digest" ]
  "$HEDDLE" certify a >out # of an earlier heddle's text, under the name of the model
  sed 's/"model": "before.yaml"/"model": "mlp"/' a/certificate.json >mlp.json
  "$HEDDLE" verify mlp.json >out
  grep -q verified out
  "$HEDDLE" summary --model mlp >out
  grep -q '^total .* 101,770 ' out
  "$HEDDLE" summary --model mlp --input 3x32x32 >out
  grep -q '^flat .* 3072 ' out
  classes mine.csv
  "$HEDDLE" summary --model mlp --data mine.csv >out
  grep -q '^fc2 .* 3 ' out
}

@test "--loss takes the model's place, goes with the run, and is checked" {
  numbers sums.csv
  run_of --model regression --data sums.csv --loss huber --out r
  grep -q 'the loss is huber, by --loss, in place of mse' out
  grep -q '"loss": "huber"' r/run.json
  [[ "$(yaml_of r)" == *'loss: huber\n' ]]
  fails 2 train --resume r --epochs 21 --loss mse
  says "expected loss huber as in that run, found mse"
  "$HEDDLE" train --resume r --epochs 21 --loss huber >out
  "$HEDDLE" certify r >out
  "$HEDDLE" verify r/certificate.json >out
  sed 's/"loss": "huber"/"loss": "mse"/' r/certificate.json >bad.json
  fails 1 verify bad.json
  says "expected the loss of 'model_yaml', huber, as 'loss' in settings, found mse"
  sed 's/input: \[2\]/input: data/' r/certificate.json >bad.json
  fails 1 verify bad.json
  says "expected numbers in 'model_yaml', found 'input: data'"
  fails 2 train --model mlp --loss hubber
  says "did you mean 'huber'?"
}

@test "a loss that the targets cannot have is refused, with what to do" {
  numbers sums.csv
  classes mine.csv
  printf '%s\n' "model: m" "input: [2]" "layers:" "  - fc: {op: linear, out: 3}" "loss: cross_entropy" >m.yaml
  refuses <<'END'
    1 train --model m.yaml --data sums.csv | class labels | are floats | --loss mse
    1 train --model m.yaml --data mine.csv --loss mse | expected numbers for the loss | --loss cross_entropy
    1 train --model cnn --data mine.csv | use --model mlp, which takes any samples
    1 train --model mlp --data random:1x4x4:3 --loss bce_with_logits | labels 0 and 1 | --loss cross_entropy
END
  sed -i 's/out: 3/out: 2/; /^loss/d' m.yaml
  fails 1 train --model m.yaml --data mine.csv
  says "at least 3 scores" "found 2" "'out: classes'"
  sed -i 's/out: 2/out: 5/' m.yaml
  run_of --model m.yaml --data mine.csv --out r
  grep -q "5 scores for the 3 classes of mine.csv; those from 3 on are not used: 'out: 3' is enough" out
  [ "$(grep -c '5 scores' out)" -eq 1 ]
}

@test "targets of zeros and ones, and whole numbers, may be more than one thing" {
  awk 'BEGIN { print "a,b,target"; for (i = 0; i < 200; i++) printf "%d,%d,%d\n", i % 10, i % 7, (i % 10 > 4) }' \
    >bits.csv
  fails 2 train --model mlp --data bits.csv
  says "targets that are all zeros and ones" "--loss bce_with_logits" "--loss mse" "--loss cross_entropy"
  for loss in cross_entropy bce_with_logits mse; do
    run_of --model mlp --data bits.csv --loss "$loss" --out "$loss"
    awk -v l="$(tail -n 1 out | json_get test_loss)" 'BEGIN { exit !(l < 0.1) }'
  done
  "$HEDDLE" certify cross_entropy >out
  "$HEDDLE" verify cross_entropy/certificate.json >out
  "$HEDDLE" train --resume cross_entropy --epochs 21 >out
  [ "$(json_get accuracy < <("$HEDDLE" eval cross_entropy --data bits.csv --json))" = 1 ]
  awk 'BEGIN { print "a,b,target"; for (i = 0; i < 200; i++) printf "%d,%d,%d\n", i % 10, i % 7, i % 10 / 3 }' \
    >three.csv
  run_of --model mlp --data three.csv --out t
  grep -q 'the loss is mse, since .* for classes give --loss cross_entropy' out
  awk 'BEGIN { print "a,age"; for (i = 0; i < 200; i++) printf "%d,%d\n", i % 90, i % 90 }' >ages.csv
  run_of --model linear --data ages.csv --out u
  grep -q 'the labels of ages.csv were read as 90 classes; --loss mse reads them as numbers to predict' out
  run_of --model linear --data ages.csv --loss mse --out v
  [[ "$(yaml_of v)" == *'out: 1}\nloss: mse\n' ]]
}

@test "files of words: rows need no flatten, pictures do" {
  words
  classes mine.csv
  run_of --model words.yaml --data mine.csv --out r
  [[ "$(yaml_of r)" == *'input: [2]\n'*'out: 3}'* ]]
  fails 1 train --model words.yaml --data digits
  says words.yaml:4 "linear expects a flat input, found 1x28x28" "- flat: {op: flatten}"
  run_of --model words.yaml --data mine.csv --init r/best/model.safetensors --out s
  printf '? model\n: m\n? input\n: data\n? layers\n: - fc: {op: linear, out: classes}\n' >odd.yaml
  numbers sums.csv
  fails 1 train --model odd.yaml --data sums.csv
  says "found no place for the loss mse" "write 'loss: mse' into the file"
}

@test "a sweep's models fit what each of its runs reads" {
  awk 'BEGIN { print "a,b,x,y"; for (i = 0; i < 90; i++) printf "%d,%d,%d,%d\n", i % 5, i % 7, (i % 5 > 2), i % 3 }' \
    >two.csv
  words
  "$HEDDLE" sweep model=words.yaml label=x,y --data two.csv --epochs 1 --out s >out
  [[ "$(yaml_of s/run-0001)" == *'out: 2}'* ]]
  [[ "$(yaml_of s/run-0002)" == *'out: 3}'* ]]
  rm -r s/run-0002
  "$HEDDLE" sweep --out s >out
  grep -q 'out: classes' s/sweep.json
  "$HEDDLE" sweep model=mlp,linear loss=mse,l1 --label x --data two.csv --epochs 1 --out t >out
  grep -q '4 of 4 runs done' out
}
