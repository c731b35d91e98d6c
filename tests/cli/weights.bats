# Weights of samples: one number for each, from a table's column or an array; part of the data, in losses and scores.

load cli

# table FILE: two columns, weights, and a label that depends on both.
table() {
  awk 'BEGIN { print "a,b,w,y"
    for (i = 0; i < 240; i++)
      printf "%d,%d,%s,%d\n", i % 13, i * 7 % 11, (i % 4 ? i % 5 / 2 : 0), (i % 13 > i * 7 % 11) }' >"$1"
}

network() {
  printf '%s\n' "model: rows" "input: [1, 1, 2]" "layers:" "  - flat: {op: flatten}" "  - fc1: {op: linear, out: 16}" \
    "  - tanh: {op: tanh}" "  - fc2: {op: linear, out: ${1:-2}}" "loss: ${2:-cross_entropy}" >rows.yaml
}

WEIGHTS="--weights w"

run_of() {
  "$HEDDLE" train --model rows.yaml --data w.csv $WEIGHTS --epochs 3 --lr 0.02 --batch 32 --json "$@" >out 2>err ||
    { cat err; return 1; }
}

@test "the digest of weighed samples is a constant of the experiment, whatever the layout" {
  table w.csv
  network
  run_of --out a
  digest=$(digest_of out)
  grep -q "the label is column 'y'; 2 other columns, weights in column 'w'" out
  for layout in "--threads 1" "--threads 3" "--procs 2" "--workers 2" "--accumulate 2" "--stages 2" \
    "--stages 2 --procs 2 --place-stages hosts"; do
    run_of --out "b$layout" $layout
    [ "$(digest_of out)" = "$digest" ] || { echo "$layout"; false; }
  done
  HEDDLE_ISA=reference run_of --out c
  [ "$(digest_of out)" = "$digest" ]
  run_of --out d --max-steps 7
  "$HEDDLE" train --resume d --max-steps 18 >out
  [ "$(digest_of out)" = "$digest" ]
  is_verified a
}

@test "weights that are all 1, or all 4, change no bit; others do" {
  table w.csv
  for loss in cross_entropy mse l1 huber bce_with_logits '{op: cross_entropy, label_smoothing: 0.1, weight: [1, 3]}'; do
    case $loss in *cross*) network 2 "$loss" ;; *) network 1 "$loss" ;; esac
    awk -F, -v OFS=, 'NR > 1 { $3 = 1 } 1' w.csv >one.csv
    awk -F, -v OFS=, 'NR > 1 { $3 = 4 } 1' w.csv >four.csv
    cut -d , -f 1,2,4 w.csv >none.csv
    rm -rf ?
    WEIGHTS='' run_of --out a --data none.csv
    digest=$(digest_of out)
    run_of --out b --data one.csv
    [ "$(digest_of out)" = "$digest" ]
    run_of --out c --data four.csv
    [ "$(digest_of out)" = "$digest" ]
    run_of --out d
    [ "$(digest_of out)" != "$digest" ]
  done
}

@test "scores are weighed too, and a table to predict or to evaluate need not have the column" {
  table w.csv
  network
  run_of --out a
  accuracy() { sed 's/.*"accuracy": \([0-9.]*\).*/\1/' "$1"; }
  awk -F, -v OFS=, 'NR > 1 { $3 = (NR % 2) * 5 } 1' w.csv >half.csv
  "$HEDDLE" eval a --data half.csv --json >half
  awk -F, -v OFS=, 'NR == 1 || $3 > 0' half.csv | cut -d , -f 1,2,4 >some.csv
  "$HEDDLE" eval a --data some.csv --json >some
  [ "$(accuracy half)" = "$(accuracy some)" ]
  cut -d , -f 1,2,4 w.csv >plain.csv
  "$HEDDLE" eval a --data plain.csv --json >plain
  loss() { sed 's/.*"loss": \([0-9.]*\).*/\1/' "$1"; }
  [ "$(loss half)" = "$(loss some)" ]
  [ "$(loss half)" != "$(loss plain)" ]
  fails 1 eval a --data plain.csv --weights w
  [[ $message == *"expected the column of weights 'w' in the first line, found none"* ]]
  "$HEDDLE" predict a plain.csv >from_plain
  "$HEDDLE" predict a half.csv >from_half
  cmp <(sed 's/.*csv//' from_plain) <(sed 's/.*csv//' from_half)
}

@test "train_loss is the mean over the samples that count, also where a batch has none" {
  mkdir d
  table whole.csv
  awk -F, -v OFS=, 'NR > 1 { $3 /= 1000 } 1' whole.csv >d/train.csv # shares far below 1
  cp d/train.csv d/test.csv
  network
  run_of --out a --data d --lr 0 --batch 1 --epochs 1
  awk -v train="$(json_get train_loss <out)" -v test="$(json_get test_loss <out)" \
    'BEGIN { ratio = train / test; exit !(ratio > 0.9999 && ratio < 1.0001) }'
}

@test "weights are refused by name: negative, no number, all zero, of a missing column" {
  table w.csv
  network
  for bad in -1 nan x '' 1e-30 1e30; do
    awk -F, -v OFS=, -v bad="$bad" 'NR == 7 { $3 = bad } 1' w.csv >bad.csv
    fails 1 train --model rows.yaml --data bad.csv --weights w --out z
    [[ $message == *"bad.csv:7: expected "* ]]
    [ ! -e z ]
  done
  awk -F, -v OFS=, 'NR > 1 { $3 = 0 } 1' w.csv >zero.csv
  fails 1 train --model rows.yaml --data zero.csv --weights w --out z
  [[ $message == *"zero.csv: expected a weight above 0 in the training set, found only zeros; change one"* ]]
  fails 1 train --model rows.yaml --data w.csv --weights ww --out z
  [[ $message == *"expected the column of weights 'ww' in the first line, found none"* ]]
  fails 1 train --model rows.yaml --data w.csv --weights y --out z
  [[ $message == *"found it as the label; name the label with --label"* ]]
  fails 2 train --model rows.yaml --data digits --weights w --out z
  [[ $message == *"--weights is for CSV files"* ]]
  run_of --out a --max-steps 3
  awk -F, -v OFS=, 'NR == 7 { $3 = 9 } 1' w.csv >w2.csv
  fails 2 train --resume a --data w2.csv
  [[ $message == *checksum* ]]
}

@test "--class-weight weighs training samples by class, is recorded, resumed and verified, and refuses what it is not" {
  awk 'BEGIN { print "a,b,y"
    for (i = 0; i < 240; i++)
      printf "%d,%d,%s\n", i % 13, i * 7 % 11, (i % 13 > 3 + i * 7 % 11 ? "cat" : "dog") }' >w.csv
  network
  WEIGHTS=''
  run_of --out plain
  plain=$(digest_of out)
  run_of --out ones --class-weight cat=1,dog=1
  [ "$(digest_of out)" = "$plain" ]
  run_of --out a --class-weight cat=4
  digest=$(digest_of out)
  [ "$digest" != "$plain" ]
  for layout in "--threads 1" "--threads 3" "--procs 2" "--accumulate 2"; do
    run_of --out "b$layout" --class-weight cat=4,dog=1 $layout
    [ "$(digest_of out)" = "$digest" ] || { echo "$layout"; false; }
  done
  run_of --out c --class-weight 0=4
  [ "$(digest_of out)" = "$digest" ]
  run_of --out d --class-weight cat=4 --max-steps 7
  "$HEDDLE" train --resume d --max-steps 18 >out
  [ "$(digest_of out)" = "$digest" ]
  fails 2 train --resume d --class-weight cat=3
  [[ $message == *"class-weight cat=4 as in that run"* ]]
  is_verified a
  run_of --out e --class-weight balanced
  digest=$(digest_of out)
  [ "$digest" != "$plain" ]
  "$HEDDLE" eval a >/dev/null
  # a validation set has no say in it
  "$BUILDDIR/tests/bits/make_data" pictures photos 40 20
  printf '%s\n' 'model: net' 'input: [3, 32, 32]' 'layers:' '  - flat: {op: flatten}' '  - fc: {op: linear, out: 10}' \
    >net.yaml
  for more in no yes; do
    rm -rf photos/val v
    cp -R photos/test photos/val
    [ $more = no ] || cp photos/train/c0/*.png photos/val/c1
    "$HEDDLE" train --model net.yaml --data photos --max-steps 2 --batch 8 --class-weight balanced --out v >out
    digest_of out >>digests
  done
  [ "$(uniq digests | wc -l)" = 1 ]
  while IFS='|' read -r list says; do
    fails 2 train --model rows.yaml --data w.csv --out z --class-weight "$list"
    [[ $message == *"$says"* ]] || { echo "$message"; false; }
    [ ! -e z ]
  done <<'LISTS'
cat|write CLASS=WEIGHT
bird=2|found 'bird'
2=1|found '2'
cat=-1|found '-1'
cat=nan|found 'nan'
cat=|found ''
cat=1,cat=2|found two for 'cat'
,cat=2|found ''
LISTS
  fails 1 train --model rows.yaml --data w.csv --out z --class-weight cat=0,dog=0
  [[ $message == *"above 0"* ]]
}
