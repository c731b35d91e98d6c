# Rows of numbers and texts: columns of all scales, matched by name, kept with the run and its exports.

load cli

# table FILE: two columns of very different scales; the first decides.
table() {
  awk 'BEGIN { print "rooms,area,label"
    for (i = 0; i < 300; i++) printf "%d,%.2f,%d\n", i % 5 + 1, (i * 7919) % 80000 + i / 7, (i % 5 + 1 > 3) }' >"$1"
}

network() {
  printf '%s\n' "model: rows" "input: [1, 1, $1]" "layers:" "  - flat: {op: flatten}" "  - fc1: {op: linear, out: 16}" \
    "  - relu: {op: relu}" "  - fc2: {op: linear, out: 2}" >rows.yaml
}

run_of() { "$HEDDLE" train --model rows.yaml --epochs 20 --lr 0.02 --batch 32 --json "$@" >out 2>err || { cat err; return 1; }; }
score() { tail -n 1 out | sed 's/.*"test_accuracy": \([0-9.]*\).*/\1/'; }

@test "columns of two scales are learnt, as each is normalised by itself" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  [ "$(score)" = 1 ]
  grep -q "house.csv: the first line is a header, the label is column 'label'; 2 other columns" out
  grep -q 'each of the 2 numbers of a row is brought to mean 0 and standard deviation 1 (--normalize column)' out
  run_of --data house.csv --out b --normalize channel
  awk -v s="$(score)" 'BEGIN { exit !(s < 0.9) }'
}

@test "the digest of a table is a constant of the experiment, whatever the layout" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  digest=$(digest_of out)
  [ "$digest" = ac943a4e726d6136f53176f090094fccaa07269ea1a7493c1c47cbe15f777307 ]
  for layout in "--threads 2" "--procs 2" "--workers 2" "--accumulate 2"; do
    run_of --data house.csv --out "b$layout" $layout
    [ "$(digest_of out)" = "$digest" ]
  done
  run_of --data house.csv --out c --max-steps 40
  "$HEDDLE" train --resume c --max-steps 160 >out
  [ "$(digest_of out)" = "$digest" ]
  "$HEDDLE" certify a >out
  "$HEDDLE" verify a/certificate.json >out
  grep -q verified out
}

@test "another table's columns are found by name, and read as the run's were" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  mkdir other
  awk -F, -v OFS=, '{ print $3, $2, $1 }' house.csv >other/test.csv
  cp house.csv other/train.csv
  "$HEDDLE" eval a --data other --json >out
  grep -q '"accuracy": 1,' out
  awk -F, -v OFS=, 'NR == 1 { print "rooms,size,label"; next } 1' house.csv >renamed.csv
  fails 1 eval a --data renamed.csv
  [[ $message == *"renamed.csv: expected column 'area' as in training, found none; add it"* ]]
}

@test "an exported C file takes the raw row" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  "$HEDDLE" export a --c a.c >out
  printf '#include "a.c"\n#include <stdio.h>\nint main(void) {\n  static float memory[rows_memory], score[2];\n  double x[2];
  while (scanf("%%lf,%%lf", &x[0], &x[1]) == 2) {\n    rows_scores(score, x, memory);\n    printf("%%d\\n", score[1] > score[0]);
  }\n  return 0;\n}\n' >main.c
  cc -O1 -Wall -Werror -Wno-unknown-pragmas -ffp-contract=off main.c -o main.exe -lm
  tail -n +2 house.csv | cut -d , -f 1,2 | ./main.exe >found
  tail -n +2 house.csv | cut -d , -f 3 >expected
  cmp found expected
}

@test "texts, empty fields and an index: what was assumed is said" {
  awk 'BEGIN { print ",age,town,income"
    for (i = 0; i < 200; i++) printf "%d,%s,%s,%s\n", i, i % 9 ? i % 60 + 18 : "", i % 3 ? "Ulm" : "Bonn", i % 3 ? "high" : "low" }' >people.csv
  network 4
  run_of --data people.csv --label income --out a
  [ "$(score)" = 1 ]
  grep -q "people.csv: the first line is a header, the label is column 'income'; 2 other columns, 1 of texts: 4 numbers a row; the first column, an index, is left out" out
  grep -q "23 empty fields in column 'age': read as the column's mean, beside a number that tells them" out
  grep -q '"category": "Ulm"' a/run.json
}

@test "options that do not go with the data are refused" {
  network 2
  fails 2 train --model rows.yaml --data digits --label x --out a
  [[ $message == *"--label is for CSV files"* ]]
  for option in "--exif ignore" --allow-empty; do
    fails 2 train --model mlp --data digits $option --out a
    [[ $message == *"${option% *} is for class folders of pictures, expected such --data, found digits; leave"* ]]
  done
  table house.csv
  fails 2 train --model rows.yaml --data house.csv --normalize column --transforms '[to_float, normalise]' --out a
  [[ $message == *"--normalize expects a run without --transforms"* ]]
  fails 2 train --model mlp --data digits --normalize column --out a
  [[ $message == *"expected rows of floats in memory for --normalize column"* ]]
}

@test "classes of another table are found by their names" {
  awk 'BEGIN { print "a,b,kind"; for (i = 0; i < 90; i++) printf "%d,%d,%s\n", i % 3, i % 7, substr("abc", i % 3 + 1, 1) }' >abc.csv
  network 2
  sed -i 's/out: 2}/out: 3}/' rows.yaml
  run_of --data abc.csv --out r
  [ "$(score)" = 1 ]
  for kinds in abc bc ac ca; do
    { head -n 1 abc.csv; grep "[$kinds]\$" abc.csv; } >some.csv
    "$HEDDLE" eval r --data some.csv --json >out
    grep -q '"accuracy": 1,' out
  done
  sed 's/a$/z/' abc.csv >renamed.csv
  fails 1 eval r --data renamed.csv
  [[ $message == *"renamed.csv: expected classes of the training set, found 'z'"* ]]
  fails 2 train --resume r --data renamed.csv --epochs 22
}

@test "texts that differ in more than is kept, and numbers that cannot be read, are refused" {
  printf 'c,x,label\ncaf\xe9,1,a\ncaf\xe8,0,b\ncaf\xe9,1,a\ncaf\xe8,0,b\n' >latin.csv
  network 3
  fails 1 train --model rows.yaml --data latin.csv --out r
  [[ $message == *"expected texts in UTF-8 of up to 255 bytes in column 'c'"* ]]
  for number in '"0,5"' inf 1e39; do
    printf 'c,x,label\n%s,1,a\n%s,0,b\n%s,1,a\n%s,0,b\n' $number $number $number $number >bad.csv
    fails 1 train --model rows.yaml --data bad.csv --out r
    [[ $message == *"bad.csv:2: expected a finite number in column 'c'"* ]]
  done
  printf 'Price,area,price\n1,2,3.5\n2,3,4.5\n3,2,1.5\n4,1,0.5\n5,2,3\n' >price.csv
  "$HEDDLE" data price.csv >out
  printf 'Price,area,PRICE\n1,2,3.5\n2,3,4.5\n' >several.csv
  fails 1 train --model rows.yaml --data several.csv --label price --out r
  [[ $message == *"expected the label's column 'price' in the first line, found"* ]]
}

@test "a run whose features were changed is refused" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  python3 - <<'END' || skip "python3 is not there"
import json
record = json.load(open("a/last/run.json"))
record["data"]["features"]["of"].append(record["data"]["features"]["of"][0])
json.dump(record, open("a/last/run.json", "w"))
END
  fails 1 eval a
}
