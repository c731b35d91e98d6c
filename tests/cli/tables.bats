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

run_of() {
  "$HEDDLE" train --model rows.yaml --epochs 20 --lr 0.02 --batch 32 --json "$@" >out 2>err || { cat err; return 1; }
}
score() { tail -n 1 out | sed 's/.*"test_accuracy": \([0-9.]*\).*/\1/'; }

@test "columns of two scales are learnt, as each is normalised by itself" {
  table house.csv
  network 2
  run_of --data house.csv --out a
  [ "$(score)" = 1 ]
  grep -q "house.csv: the first line is a header, the label is column 'label'; 2 other columns" out
  grep -q 'each of the 2 numbers of a row is scaled to mean 0 and standard deviation 1 (--normalize column)' out
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
  is_verified a
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
  printf '#include "a.c"\n#include <stdio.h>\nint main(void) {\n  static float memory[rows_memory], score[2];\n'\
'  double x[2];
  while (scanf("%%lf,%%lf", &x[0], &x[1]) == 2) {\n    rows_scores(score, x, memory);\n    printf("%%d\\n",
      score[1] > score[0]);
  }\n  return 0;\n}\n' >main.c
  cc -O1 -Wall -Werror -Wno-unknown-pragmas -ffp-contract=off main.c -o main.exe -lm
  tail -n +2 house.csv | cut -d , -f 1,2 | ./main.exe >found
  tail -n +2 house.csv | cut -d , -f 3 >expected
  cmp found expected
}

@test "texts, empty fields and an index: what was assumed is said" {
  awk 'BEGIN { print ",age,town,income"
    for (i = 0; i < 200; i++) printf "%d,%s,%s,%s\n", i, i % 9 ? i % 60 + 18 : "", i % 3 ? "Ulm" : "Bonn",
        i % 3 ? "high" : "low" }' >people.csv
  network 4
  run_of --data people.csv --label income --out a
  [ "$(score)" = 1 ]
  grep -q "people.csv: the first line is a header, the label is column 'income'; 2 other columns, 1 of texts: 4 "\
"numbers per row; the first column, an index, is left out" out
  grep -q "23 empty fields in column 'age': filled with the column's mean, with one more number that marks them" out
  grep -q '"category": "Ulm"' a/run.json
}

@test "options that do not go with the data are refused" {
  network 2
  fails 2 train --model rows.yaml --data digits --label x --out a
  [[ $message == *"--label is for CSV files"* ]]
  for option in "--exif ignore" --allow-empty; do
    fails 2 train --model mlp --data digits $option --out a
    [[ $message == *"${option% *} is for class folders of pictures, found --data digits; leave"* ]]
  done
  table house.csv
  fails 2 train --model rows.yaml --data house.csv --normalize column --transforms '[to_float, normalise]' --out a
  [[ $message == *"--normalize cannot be combined with --transforms"* ]]
  fails 2 train --model mlp --data digits --normalize column --out a
  [[ $message == *"expected rows of floats in memory for --normalize column"* ]]
}

@test "classes of another table are found by their names" {
  awk 'BEGIN { print "a,b,kind"; for (i = 0; i < 90; i++) printf "%d,%d,%s\n", i % 3, i % 7, \
      substr("abc", i % 3 + 1, 1) }' >abc.csv
  network 2
  sed -i 's/out: 2}/out: 3}/' rows.yaml
  run_of --data abc.csv --out r
  [ "$(score)" = 1 ]
  for kinds in abc bc ac ca; do
    { head -n 1 abc.csv; grep "[$kinds]\$" abc.csv; } >some.csv
    "$HEDDLE" eval r --data some.csv --json >out
    grep -q '"accuracy": 1,' out
  done
  # the class that the loss ignores is that of the run, not the one of its number in the table
  echo 'loss: {op: cross_entropy, ignore_index: 1}' >>rows.yaml
  run_of --data abc.csv --out i
  { head -n 1 abc.csv; grep '[ac]$' abc.csv; } >ac.csv
  "$HEDDLE" eval i --data ac.csv --json >out
  [ "$(json_get confusion.0 confusion.1 confusion.2 <out)" = "[30,0,0] [0,0,0] [0,0,30]" ]
  sed 's/a$/z/' abc.csv >renamed.csv
  fails 1 eval r --data renamed.csv
  [[ $message == *"renamed.csv: expected classes of the training set, found 'z'"* ]]
  fails 2 train --resume r --data renamed.csv --epochs 22
}

@test "a column's number that stands in the first line may be a name: it is asked for" {
  awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d,%d,%d,%d\n", 3 + i % 9, 6 + i % 5, i % 2, 8 + 7 * i }' >rows.csv
  fails 1 data rows.csv --label 3
  says "rows.csv:1: expected a first line that is clearly a header or not, found one that may be either; say --header"
  "$HEDDLE" data rows.csv --label 3 --header no >out
  grep -q "no header, the label is column 3; 3 other columns" out
  "$HEDDLE" data rows.csv --label 3 --header yes >out
  grep -q "the first line is a header, the label is column '3'; 3 other columns" out
  { echo id,3,2,1; cat rows.csv; } >named.csv
  "$HEDDLE" data named.csv --label 3 >out
  grep -q "the first line is a header, the label is column '3'; 3 other columns" out
}

@test "whole numbers of a column called target are numbers to eval as in training: it tests the same rows" {
  for name in target label; do
    awk -v name=$name 'BEGIN { print "a," name ",b"; for (i = 0; i < 60; i++) printf "%d,%d,%d\n", i % 7, i % 3,
        i % 11 }' >t.csv
    rm -rf r
    "$HEDDLE" train --model linear --data t.csv --epochs 1 --out r --json >out
    loss=$(tail -n 1 out | json_get test_loss)
    [ "$("$HEDDLE" eval r --json | json_get loss)" = "$loss" ]
    awk -F, -v OFS=, '{ print $3, $1, $2 }' t.csv >other.csv
    [ "$("$HEDDLE" eval r --data other.csv --json | json_get loss)" = "$loss" ]
  done
}

@test "texts that differ in more than is kept, and numbers that cannot be read, are refused" {
  printf 'c,x,label\ncaf\xe9,1,a\ncaf\xe8,0,b\ncaf\xe9,1,a\ncaf\xe8,0,b\n' >latin.csv
  network 3
  fails 1 train --model rows.yaml --data latin.csv --out r
  [[ $message == *"expected UTF-8 text of up to 255 bytes in column 'c'"* ]]
  printf '\xf6\xe5\xed\xe0,\xe2\xe5\xf1,label\n1,2,0\n2,1,1\n3,4,0\n' >cyrillic.csv
  fails 1 data cyrillic.csv
  says "cyrillic.csv:1: expected names of columns in UTF-8, found '????'; save the file as UTF-8"
  printf '"a\nb",a?b,label\n1,2,0\n2,1,1\n3,4,0\n' >lines.csv
  fails 1 data lines.csv
  says "lines.csv:1: expected columns with different names, found 'a?b' twice"
  sed 's/a?b/a c/' lines.csv >names.csv
  "$HEDDLE" data names.csv >out
  for number in '"0,5"' inf 1e39; do
    printf 'c,x,label\n%s,1,a\n%s,0,b\n%s,1,a\n%s,0,b\n' $number $number $number $number >bad.csv
    fails 1 train --model rows.yaml --data bad.csv --out r
    [[ $message == *"bad.csv:2: expected a finite number in column 'c'"* ]]
  done
  printf 'Price,area,price\n1,2,3.5\n2,3,4.5\n3,2,1.5\n4,1,0.5\n5,2,3\n' >price.csv
  "$HEDDLE" data price.csv >out
  printf 'Price,area,PRICE\n1,2,3.5\n2,3,4.5\n' >several.csv
  fails 1 train --model rows.yaml --data several.csv --label price --out r
  [[ $message == *"expected one column 'price', found several that differ in case"* ]]
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

# flowers FILE: three named classes, a text, an empty field now and then.
flowers() {
  awk 'BEGIN { print "width,soil,length,kind"
    for (i = 0; i < 150; i++) printf "%.2f,%s,%s,%s\n", i % 3 + i / 999, i % 2 ? "wet" : "dry", i % 10 ? i % 7 : "",
        substr("abc", i % 3 + 1, 1) "-kind" }' >"$1"
}

# A run on flowers, with a test set in a file of its own.
flower_run() {
  mkdir flowers && flowers flowers/train.csv
  { head -n 1 flowers/train.csv; tail -n 30 flowers/train.csv; } >flowers/test.csv
  network 5
  sed -i 's/out: 2}/out: 3}/' rows.yaml
  run_of --data flowers --label kind --out r "$@"
}

@test "rows of a file are predicted as those of the test set, with or without their label, in any order of columns" {
  flower_run
  "$HEDDLE" predict r flowers/test.csv --json >all
  "$HEDDLE" predict r --index 0 --index 29 --json >items
  for i in 0 1; do
    row=$((29 * i))
    [ "$(json_get predictions.$i.probabilities <items)" = "$(json_get predictions.$row.probabilities <all)" ]
    [ "$(json_get predictions.$row.line predictions.$row.index <all)" = "$((row + 2)) $row" ]
    for key in label label_name class class_name; do
      [ "$(json_get predictions.$i.$key <items)" = "$(json_get predictions.$row.$key <all)" ]
    done
  done
  [ "$(json_keys < <(json_get predictions.3 <all))" \
    = "file index line label label_name class class_name probabilities" ]
  bare() { "$HEDDLE" predict r "$@" --json | sed 's/"file": "[^"]*", //g; s/"label[_a-z]*": [^,]*, //g'; }
  bare flowers/test.csv >wanted
  awk -F, -v OFS=, '{ print $3, $1, $2 }' flowers/test.csv >bare.csv
  bare bare.csv | cmp - wanted
  awk -F, -v OFS=, '{ print $4, $3, $2, $1 }' flowers/test.csv | bare - | cmp - wanted
  "$HEDDLE" predict r flowers/test.csv >out
  [ "$(wc -l <out)" -eq 30 ]
  grep -Eq '^flowers/test.csv:2  +[0-2] [abc]-kind +[0-9.]+ %   then [0-2] [abc]-kind \([0-9.]+ %\), [0-2] '\
'[abc]-kind \([0-9.]+ %\)   label 0 a-kind$' out
  sed '3s/b-kind/z/; 4s/c-kind//' flowers/test.csv >other.csv
  "$HEDDLE" predict r other.csv >out
  grep -q '^other.csv:3 .*   label z, which the model does not know$' out
  no grep -q '^other.csv:4 .*label' out
}

@test "a row that is not what the run reads is refused with its file and line" {
  flower_run
  refused() { # SED MESSAGE
    sed "$1" flowers/test.csv >bad.csv
    fails 1 predict r bad.csv
    says "$2"
    nothing=$("$HEDDLE" predict r - <bad.csv 2>err) || :
    [ -z "$nothing" ]
    grep -q "standard input:" err
  }
  refused '5s/^[^,]*/x/' "bad.csv:5: expected a finite number in column 'width', found 'x'"
  refused '5s/^[^,]*/inf/' "bad.csv:5: expected a finite number in column 'width', found 'inf'"
  refused '5s/^[^,]*/nan/' "bad.csv:5: expected no empty field in column 'width'"
  refused '6s/wet/moist/; 6s/dry/moist/' "bad.csv:6: expected a text of the training set in column 'soil', found "\
"'moist'"
  refused '7s/,/,1,/' "bad.csv:7: expected 4 fields as in the first line, found 5"
  refused '1s/soil/ground/' "bad.csv: expected column 'soil' as in training, found none"
  refused '1s/$/,more/; 2,$s/$/,1/' "bad.csv: expected only columns of training, found column 'more' too"
  fails 1 predict r flowers/test.csv --missing refuse
  says "expected no empty field with --missing refuse"
  fails 1 predict r none.csv
  : >empty.csv
  fails 1 predict r empty.csv
  says "empty.csv: expected at least one row"
}

@test "targets of rows stand beside what a regression makes of them" {
  awk 'BEGIN { print "x,y,target"; for (i = 0; i < 100; i++)
      printf "%d,%d,%.1f\n", i % 9, i % 5, 2 * (i % 9) + i % 5 }' >reg.csv
  network 2
  sed -i 's/out: 2}/out: 1}/' rows.yaml
  echo 'loss: mse' >>rows.yaml
  run_of --data reg.csv --out r
  "$HEDDLE" predict r reg.csv --json >out
  [ "$(json_get predictions.4.targets.0 <out)" = "$(sed -n 6p reg.csv | cut -d, -f3 | sed 's/\.0$//')" ]
  [ "$(json_keys < <(json_get predictions.4 <out))" = "file index line outputs targets" ]
  "$HEDDLE" predict r reg.csv >out
  grep -Eq '^reg.csv:6 +[-0-9.]+   target 12$' out
  sed '3s/,[^,]*$/,much/' reg.csv >bad.csv
  fails 1 predict r bad.csv
  says "bad.csv:3: expected a finite number in column 'target', found 'much'"
}

# array FILE TYPE NUMBERS...: an NPY file of rows of two numbers.
array() {
  python3 - "$@" <<'END' || skip "python3 is not there"
import struct, sys
path, type_, *numbers = sys.argv[1:]
code = {"<f4": "f", "<f8": "d", "<i8": "q"}[type_]
shape = (len(numbers),) if code == "q" else (len(numbers) // 2, 2)
head = ("{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (type_, shape)).encode()
head += b" " * (-(len(head) + 11) % 64) + b"\n"
values = [int(x) if code == "q" else float(x) for x in numbers]
open(path, "wb").write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head
                       + struct.pack("<%d%s" % (len(values), code), *values))
END
}

@test "a run on arrays predicts rows of arrays and of CSV files alike, and is evaluated on both" {
  mkdir d
  table house.csv
  sed 1d house.csv | cut -d, -f1,2 | tr ',\n' '  ' >numbers
  array d/x.npy '<f4' $(cat numbers)
  array d/y.npy '<i8' $(sed 1d house.csv | cut -d, -f3)
  array wide.npy '<f8' $(cat numbers)
  network 2
  run_of --data d --out a
  plain() {
    "$HEDDLE" predict a "$@" --json | sed 's/"file": "[^"]*", //g; s/"line": [0-9]*, //g; s/"label": [0-9]*, //g'
  }
  plain d/x.npy >wanted
  for file in wide.npy house.csv; do
    plain $file | cmp - wanted
  done
  cut -d, -f1,2 house.csv >bare.csv
  plain bare.csv | cmp - wanted
  sed 1d bare.csv | plain - | cmp - wanted
  "$HEDDLE" eval a --json >out
  "$HEDDLE" eval a --data house.csv --json >other
  cmp out other
  sed 's/1$/yes/; s/0$/no/' house.csv >named.csv
  fails 1 eval a --data named.csv
  says "expected numbers as labels, as the run's classes have no names, found text"
  cut -d, -f1,3 house.csv >narrow.csv
  fails 1 eval a --data narrow.csv
  says "narrow.csv: expected 2 numbers per row as in training, found 1"
  fails 1 predict a narrow.csv
  says "narrow.csv: expected 2 numbers per row as in training, found 1"
  array nan.npy '<f4' 1 2 nan 4
  fails 1 predict a nan.npy
  says "nan.npy: expected finite numbers, found NaN in sample 1"
}

@test "data and eval take the options that their messages advise" {
  awk 'BEGIN { for (i = 0; i < 60; i++) printf "%d,%d,%d\n", i % 2, i % 5, i % 7 }' >plain.csv
  "$HEDDLE" data plain.csv --label 1 --header no --missing refuse --categories 3 --normalize none >out
  grep -q "no header, the label is column 1" out
  network 2
  run_of --data plain.csv --label 1 --header no --out a
  "$HEDDLE" predict a plain.csv --json | sed 's/"label": [0-9]*, //g' >wanted
  cut -d, -f2,3 plain.csv >bare.csv
  "$HEDDLE" predict a bare.csv --json | sed 's/bare.csv/plain.csv/g' | cmp - wanted
  { echo y,a,b; cat plain.csv; } >named.csv
  fails 1 eval a --data named.csv --header yes
  says "expected no header as in training, found one"
  table house.csv
  run_of --data house.csv --out b
  sed '1s/label/other/' house.csv >other.csv
  fails 1 eval b --data other.csv
  says "expected the label's column 'label' in the first line, found none; name one with --label"
  "$HEDDLE" eval b --data other.csv --label other >out
  "$HEDDLE" eval b --data house.csv >wanted
  cmp out wanted
  fails 2 eval b --normalize channel
  says "expected --normalize column as in the run, found channel"
  "$HEDDLE" eval b --normalize column >out
  cmp <(grep accuracy out) <("$HEDDLE" eval b | grep accuracy)
}

@test "names of classes stand in eval, in the report and in exports; scores beyond them are said" {
  flower_run
  "$HEDDLE" eval r --json >out
  [ "$(json_get class_names <out | tr -d ' \n')" = '["a-kind","b-kind","c-kind"]' ]
  "$HEDDLE" eval r >out
  grep -Eq '^ +1 b-kind +[0-9.]+ %' out
  grep -q '<td class="">1 b-kind</td>' r/report.html
  grep -q '>b-kind 1</text>' r/report.html
  "$HEDDLE" export r --c r.c >out
  printf '#include "r.c"\n#include <stdio.h>\nint main(void) {\n  puts(rows_class_names[2]);\n}\n' >main.c
  cc -Wall -Werror -Wno-unknown-pragmas -ffp-contract=off main.c -o main.exe -lm
  [ "$(./main.exe)" = c-kind ]
  sed -i 's/out: 3}/out: 6}/' rows.yaml
  run_of --data flowers --label kind --out more
  enough="the last layer has 6 scores for the 3 classes of flowers; those from 3 on are not used: 'out: 3' is enough"
  [ "$(grep -c "$enough" out)" -eq 1 ]
}

@test "an ONNX file of rows has the names and features, and is read back with its normalisation" {
  flower_run
  "$HEDDLE" export r --onnx r.onnx >out 2>err || {
    grep -q 'a build with protobuf-c' err && skip "$(cat err)"
    cat err
    false
  }
  grep -aq '\["a-kind","b-kind","c-kind"\]' r.onnx
  grep -aq '"category":"wet"' r.onnx
  [ "$("$HEDDLE" digest r.onnx)" = "$("$HEDDLE" digest r)" ]
  "$HEDDLE" summary --model r.onnx >out
  sed '2,80d' flowers/train.csv >flowers/less.csv && mv flowers/less.csv flowers/train.csv # other statistics
  again() { "$HEDDLE" train --model r.onnx --data flowers --label kind "$@" >out; }
  again --lr 0 --optimizer sgd --epochs 1 --out same
  grep -q 'r.onnx normalises each of its 5 inputs by itself, so its means and standard deviations are used for the '\
'data' out
  "$HEDDLE" predict r flowers/test.csv >wanted
  "$HEDDLE" predict same flowers/test.csv | cmp - wanted
  again --epochs 4 --out whole
  again --epochs 4 --max-steps 3 --out part
  "$HEDDLE" train --resume part --max-steps 8 >out
  [ "$("$HEDDLE" digest part)" = "$("$HEDDLE" digest whole)" ]
  fails 1 certify whole
  says "expected rows normalised by their own statistics, found those of an ONNX file"
  fails 2 train --model r.onnx --data flowers --label kind --normalize none --out no
  says "expected rows that are normalised by columns, as its first nodes do it, found none"
  table house.csv
  fails 1 train --model r.onnx --data house.csv --out no
  says "expected 5 numbers per row, as the network normalises, found 2"
  "$HEDDLE" train --model rows.yaml --init r.onnx --data flowers --label kind --epochs 1 --out init >out
}

# prices FILE: three columns and a price of about 300,000.
prices() {
  awk 'BEGIN { print "rooms,area,town,price"
    for (i = 0; i < 200; i++) { r = i % 6 + 1; a = 20 * r + i * 37 % 30; b = i * 7 % 3 == 0
      printf "%d,%.1f,%s,%d\n", r, a, b ? "Bonn" : "Ulm", 2000 * a + 30000 * r + 50000 * b } }' >"$1"
}

@test "prices are learnt on a scale of their own, and predicted as prices" {
  prices houses.csv
  "$HEDDLE" train --model regression --data houses.csv --out r >out
  grep -q 'deviation 1 (--normalize column); the target too, and losses are on that scale (--target-scale); 100 '\
'epochs (--epochs)' out
  grep -q '"target-scale": "standard"' r/run.json
  "$HEDDLE" eval r --json >is
  awk -v r2="$(sed 's/.*"r2": \([-0-9.e]*\).*/\1/' is)" 'BEGIN { exit !(r2 > 0.99) }'
  awk -v off="$(sed 's/.*"mean_absolute_error": \([-0-9.e]*\).*/\1/' is)" 'BEGIN { exit !(off > 100 && off < 20000) }'
  head -n 2 houses.csv >one.csv
  "$HEDDLE" predict r one.csv >guess
  awk '{ exit !($2 > $4 - 20000 && $2 < $4 + 20000) }' guess
  "$HEDDLE" verify r | grep -q verified
  for list in '' '--eval-transforms=[to_float]'; do
    "$HEDDLE" train --model regression --data houses.csv --out "of$list" --epochs 2 --json ${list:+"$list"} >out
    json_get test_loss <out >>losses
  done
  [ "$(uniq losses | wc -l)" = 1 ]
  "$HEDDLE" train --model regression --data houses.csv --out raw --target-scale none --epochs 2 >out
  no grep -q 'target-scale' out
  no grep -q '"targets"' raw/run.json
}

@test "an ONNX file whose scores are brought to prices is no model to train: its node and a remedy are named" {
  prices houses.csv
  "$HEDDLE" train --model regression --data houses.csv --epochs 2 --out r >out
  if ! "$HEDDLE" export r --onnx r.onnx 2>err; then grep -q protobuf err && skip "built without protobuf"; fi
  fails 1 train --model r.onnx --data houses.csv --out no
  says "r.onnx: node '/scores/2' (Add): expected scores as the loss reads them, found scores rescaled to the targets "\
"(--target-scale)" "--init"
  "$HEDDLE" train --model regression --init r/last/model.safetensors --data houses.csv --epochs 1 --out warm >out
  "$HEDDLE" train --model regression --target-scale none --data houses.csv --epochs 2 --out raw >out
  "$HEDDLE" export raw --onnx raw.onnx
  "$HEDDLE" train --model raw.onnx --data houses.csv --epochs 1 --out again >out
}

@test "an exported network predicts prices as heddle does" {
  prices houses.csv
  "$HEDDLE" train --model regression --data houses.csv --epochs 20 --out r >out
  "$HEDDLE" export r --c net.c
  printf 'rooms,area,town\n2,55,Ulm\n' >one.csv
  "$HEDDLE" predict r one.csv --json >guess
  cat >main.c <<'END'
#include <stdio.h>
#include "net.c"
int main(void) {
  static float memory[regression_memory];
  float score;
  regression_scores(&score, (const double[]){2, 55, 0, 1}, memory);
  printf("%.0f\n", (double)score);
  return 0;
}
END
  cc -O1 -Wno-unknown-pragmas -ffp-contract=off -o main main.c -lm
  local number
  number=$(tr ' [],{}' '\n' <guess | grep -E '^[0-9]+\.?[0-9]*$' | tail -n 1)
  awk -v a="$(./main)" -v b="$number" 'BEGIN { exit !(a > 10000 && a - b < 1 && b - a < 1) }'
}

@test "small tables get as many epochs as they need, which the run records" {
  prices houses.csv
  "$HEDDLE" train --model mlp --data houses.csv --label town --out r >out
  grep -q '; 100 epochs (--epochs)' out
  grep -q '"epochs": "100"' r/run.json
  "$HEDDLE" train --model mlp --data houses.csv --label town --out part --max-steps 151 >/dev/null
  "$HEDDLE" train --resume part --max-steps 1000 >again
  [ "$(grep weights_sha256 again)" = "$(grep weights_sha256 out)" ]
  "$HEDDLE" train --model mlp --data houses.csv --label town --epochs 3 --out few >out
  no grep -q '(--epochs)' out
  [ "$(grep -c ^epoch out)" = 3 ]
}

@test "--save-epochs counts where the epochs were chosen, and without it a resumed run saves as before" {
  prices houses.csv
  local how="--model mlp --data houses.csv --label town --keep 1000 --threads 1"
  "$HEDDLE" train $how --out r --max-steps 1 >/dev/null
  steps=$(sed -n 's/.*"epoch_steps":\([0-9]*\).*/\1/p' r/history.jsonl | head -n 1)
  "$HEDDLE" train $how --save-epochs 1 --max-steps $((4 * steps)) --out each >/dev/null
  [ "$(echo each/step-* | wc -w)" = 4 ]
  "$HEDDLE" train $how --max-steps $((9 * steps)) --out some >/dev/null
  [ "$(echo some/step-* | wc -w)" = 1 ]
  "$HEDDLE" train --resume some --max-steps $((19 * steps)) >/dev/null
  [ "$(echo some/step-* | wc -w)" = 3 ] # after 9, 10 and 19 epochs
}

@test "a scale of targets is for numbers to predict" {
  prices houses.csv
  fails 2 train --model mlp --data houses.csv --label town --target-scale standard --out r
  [[ $message == *"--target-scale standard expects a model that predicts numbers"* ]]
}

# whole_prices FILE: rooms, area and their price, a whole number.
whole_prices() {
  awk 'BEGIN { print "rooms,area,price"
    for (i = 0; i < 50; i++) printf "%d,%d,%d\n", i % 5 + 1, i * 7919 % 97 + 20,
        100 * (i % 5 + 1) + 2 * (i * 7919 % 97 + 20) }' >"$1"
}

@test "whole numbers are numbers for a model whose file states a loss on numbers, in any column" {
  whole_prices prices.csv
  "$HEDDLE" train --model regression --data prices.csv --epochs 2 --out a --json >out
  no grep -q class out
  digest=$(digest_of out)
  [ "$(tail -n 1 out | json_get test_r2 test_mean_absolute_error test_root_mean_square_error)" = \
    "$("$HEDDLE" eval a --json | json_get r2 mean_absolute_error root_mean_square_error)" ]
  grep -Eq '^test error +mean absolute [0-9.]+, root mean square [0-9.]+, R2 -?[0-9.]+$' out
  "$HEDDLE" train --model linear --loss mse --data prices.csv --epochs 2 --out b --json >out
  "$HEDDLE" train --model regression --loss mse --data prices.csv --epochs 2 --out c --json >out
  [ "$(digest_of out)" = "$digest" ]
  for run in a b c; do
    [ "$("$HEDDLE" eval $run | grep samples | tr -s " ")" = "samples 10" ]
  done
  network 2
  for loss in mse l1 huber; do
    { sed 's/out: 2}/out: 1}/' rows.yaml; echo "loss: $loss"; } >number.yaml
    rm -rf d
    "$HEDDLE" train --model number.yaml --data prices.csv --epochs 2 --out d >out
    [ "$("$HEDDLE" eval d | grep samples | tr -s " ")" = "samples 10" ]
  done
  is_verified d
  "$HEDDLE" train --resume d --epochs 3 >out
}

@test "texts among numbers to predict are refused with their line" {
  whole_prices prices.csv
  sed '7s/,[0-9]*$/,unknown/' prices.csv >odd.csv
  for options in "--model regression" "--model linear --loss l1"; do
    fails 1 train $options --data odd.csv --out r
    says "odd.csv:7: expected a finite number in column 'price', found 'unknown'; correct the field, or drop the row"
  done
  sed '3s/$/.5/; 7s/,[0-9]*$/,unknown/' prices.csv >odd.csv
  fails 1 train --model mlp --data odd.csv --out r
  says "odd.csv:7: expected a finite number in column 'price', found 'unknown'"
  sed '2,$s/,[0-9]*$/,high/' prices.csv >texts.csv
  fails 1 train --model regression --data texts.csv --out r
  says "texts.csv:2: expected numbers for the loss in column 'price', found 'high'; train classes with --loss "\
"cross_entropy, or name another column with --label"
}

@test "decimals in a column of labels, a line break in a text, and an empty line of one column are refused" {
  whole_prices prices.csv
  sed '1s/price/label/; 4s/$/.5/' prices.csv >decimals.csv
  fails 1 train --model mlp --data decimals.csv --out r
  says "decimals.csv:4: expected a class from 0 to 65535 as label" \
    "train with --loss mse if labels are numbers to predict, or name another column with --label"
  printf 'x,town,label\n1,Ulm,0\n2,"Bad\nOrb",1\n3,Ulm,0\n4,"Bad\nOrb",1\n' >break.csv
  fails 1 train --model mlp --data break.csv --out r
  says "break.csv:3: expected text without line breaks and other control characters in column 'town', found 'Bad?Orb'"
  awk 'BEGIN { print "x,y"; for (i = 0; i < 50; i++) printf "%d,%d\n", i, 2 * i }' >line.csv
  "$HEDDLE" train --model regression --data line.csv --epochs 1 --out r >out
  for empty in 'x\n1\n\n3\n' 'x\n1\n2\n\n' '\nx\n1\n2\n'; do
    printf "$empty" >one.csv
    fails 1 predict r one.csv
    says "expected a field in the only column, found an empty line; write \"\" for an empty field, or drop the line"
  done
  printf 'x\r\n1\r\n2\r\n' >one.csv
  [ "$("$HEDDLE" predict r one.csv | wc -l)" -eq 2 ]
}

@test "a file of one's own is evaluated whole, and the run's data as their test set, under any name" {
  whole_prices prices.csv
  "$HEDDLE" train --model regression --data prices.csv --epochs 2 --out r >out
  [ "$("$HEDDLE" eval r | sed -n 1p | tr -s " ")" = "samples 10" ]
  awk -F, -v OFS=, '{ print $3, $1, $2 }' prices.csv >same.csv
  for file in prices.csv same.csv; do
    "$HEDDLE" eval r --data $file >out
    [ "$(sed -n 1p out | tr -s " ")" = "samples 10, the run's test set" ]
    sed 1d out | cmp - <("$HEDDLE" eval r | sed 1d)
  done
  for rows in 1 2 20 49; do
    head -n $((rows + 1)) prices.csv >own.csv
    "$HEDDLE" eval r --data own.csv | grep -q "^samples  *$rows, all of the data$"
    "$HEDDLE" eval r --data own.csv --json >is
    [ "$(json_get samples part <is)" = "$rows all" ]
    "$HEDDLE" predict r own.csv | awk -v is="$(json_get mean_absolute_error <is)" \
      '{ off = $2 - $4; sum += off < 0 ? -off : off }
      END { exit !(sum / NR > is * 0.9999 && sum / NR < is * 1.0001) }'
  done
  [ "$("$HEDDLE" predict r --index 3 --data own.csv | awk '{ print $2 }')" = "$("$HEDDLE" predict r own.csv |
    awk 'NR == 4 { print $2 }')" ]
  "$HEDDLE" train --model regression --data prices.csv --fold 2/5 --epochs 2 --out f >out
  "$HEDDLE" train --model regression --data prices.csv --fold 2/5 --epochs 2 --stages 2 --threads 2 --out s >of_stages
  [ "$("$HEDDLE" digest s)" = "$("$HEDDLE" digest f)" ]
  "$HEDDLE" eval f --data same.csv | grep -q "^samples  *10, the run's test set$"
  "$HEDDLE" eval f --data own.csv | grep -q "^samples  *49, all of the data$"
  mkdir own && cp prices.csv own/train.csv && head -n 4 prices.csv >own/test.csv
  "$HEDDLE" eval r --data own | grep -q "^samples  *3, the data's test set$"
  head -n 41 prices.csv >less.csv && mv less.csv prices.csv
  "$HEDDLE" eval r | grep -q "^samples  *8, the test set of data that differ from the training data$"
}

# pixels FILE TYPE SHAPE SCALE: 24 samples of bytes 0 to 9, by so much, as uint8 (u1) or float32 (f4); labels are
# beside.
pixels() {
  python3 - "$@" <<'END' || skip "python3 is not there"
import struct, sys
path, type_, shape, scale = sys.argv[1:]
shape = tuple(int(n) for n in shape.split("x"))
count = 1
for n in shape:
    count *= n
values = [i * 7 % 10 * float(scale) for i in range(count)]
head = ("{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % ({"u1": "|u1", "f4": "<f4"}[type_], shape)).encode()
head += b" " * (-(len(head) + 11) % 64) + b"\n"
body = bytes(int(v) for v in values) if type_ == "u1" else struct.pack("<%df" % count, *values)
open(path, "wb").write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + body)
END
}

@test "bytes and floats do not stand for each other, but for pixels from 0 to 1" {
  for kind in u1 f4; do
    mkdir $kind
    pixels $kind/x.npy $kind 24x4x4 1
    array $kind/y.npy '<i8' $(seq 24 | awk '{ print $1 % 2 }')
    "$HEDDLE" train --model mlp --data $kind --epochs 1 --out run_$kind >out
  done
  "$HEDDLE" predict run_u1 u1/x.npy >wanted
  "$HEDDLE" predict run_f4 f4/x.npy >out
  fails 1 predict run_f4 u1/x.npy
  says "u1/x.npy: expected floats as in training, found bytes (uint8), which stand for pixels from 0 to 1; convert them"
  fails 1 eval run_f4 --data u1
  says "u1: expected floats as in training, found bytes"
  fails 1 predict run_u1 f4/x.npy
  says "f4/x.npy: expected bytes as in training, or floats from 0 to 1 in their place, found 7 in sample 0; give the "\
"numbers as bytes (uint8)"
  fails 1 eval run_u1 --data f4
  says "f4: expected bytes as in training, or floats from 0 to 1"
  pixels bits.npy f4 24x4x4 0
  "$HEDDLE" predict run_u1 bits.npy >out
  python3 -c 'import sys
data = bytearray(open("bits.npy", "rb").read())
data[-4:] = bytes([0, 0, 128, 63])
open("bits.npy", "wb").write(data)'
  fails 1 predict run_u1 bits.npy
  says "bits.npy: expected bytes as in training, or floats from 0 to 1 in their place, found only 0 and 1, which may "\
"be either"
  pixels scaled.npy f4 24x4x4 0.003921568627451
  "$HEDDLE" predict run_u1 scaled.npy | sed 's/scaled/u1\/x/' | awk '{ $1 = ""; print }' |
    cmp - <(awk '{ $1 = ""; print }' wanted)
  seven_png() { python3 - "$1" <<'END'
import struct, sys, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
                              + chunk(b"IDAT", zlib.compress((b"\0" + bytes([0, 200, 250, 0])) * 4))
                              + chunk(b"IEND", b""))
END
  }
  seven_png four.png
  "$HEDDLE" predict run_u1 four.png >out
  fails 1 predict run_f4 four.png
  says "four.png: pictures need a run on pixels (bytes, or floats from 0 to 1), found one on floats of mean"
  mkdir rows
  pixels rows/x.npy u1 24x3 1
  array rows/y.npy '<i8' $(seq 24 | awk '{ print $1 % 2 }')
  "$HEDDLE" train --model mlp --data rows --epochs 1 --out run_rows >out
  printf 'a,b,c\n0,1,1\n1,0,1\n' >bits.csv
  fails 1 predict run_rows bits.csv
  says "bits.csv: expected bytes as in training, found floats; give the numbers as bytes (uint8)"
  mkdir columns
  pixels columns/x.npy f4 24x3 1
  cp rows/y.npy columns
  "$HEDDLE" train --model mlp --data columns --epochs 1 --out run_columns >out
  "$HEDDLE" predict run_columns columns/x.npy | sed 's/columns/rows/' | cmp - <("$HEDDLE" predict run_columns \
    rows/x.npy)
}

@test "one_hot makes numbers of the classes of rows for a loss on numbers, from any format" {
  awk 'BEGIN { print "a,b,label"; for (i = 0; i < 40; i++) print i % 7 / 2 "," i % 11 "," i % 3 }' >t.csv
  mkdir arrays
  array arrays/x.npy '<f4' $(awk 'BEGIN { for (i = 0; i < 40; i++) print i % 7 / 2, i % 11 }')
  array arrays/y.npy '<i8' $(awk 'BEGIN { for (i = 0; i < 40; i++) print i % 3 }')
  printf 'model: m\ninput: data\nlayers:\n  - fc: {op: linear, out: 3}\nloss: mse\n' >m.yaml
  for data in t.csv arrays; do
    "$HEDDLE" train --model m.yaml --data $data --transforms '[to_float, one_hot]' --max-steps 5 --out r-$data >out
    grep '^weights_sha256' out >>digests
  done
  [ "$(sort -u digests | wc -l)" = 1 ]
  grep -v ',2$' t.csv >less.csv # other data may lack the last class
  "$HEDDLE" eval r-t.csv --data less.csv | grep -q '^samples  *27, all of the data$'
}

@test "whole numbers that would be more classes than rows are asked about" {
  awk 'BEGIN { print "a,b,price"; for (i = 0; i < 60; i++) print i % 7 "," i % 11 "," 3000 + i * 187 }' >cars.csv
  fails 2 train --model mlp --data cars.csv --max-steps 2
  says "cars.csv: the labels of 60 rows are whole numbers up to 14033" "--loss mse" "--loss cross_entropy"
  "$HEDDLE" train --model mlp --data cars.csv --max-steps 2 --loss mse --out r >out
  "$HEDDLE" train --resume r --max-steps 3 >out
  "$HEDDLE" train --model regression --data cars.csv --max-steps 2 --out n >out
}

@test "a numeric label that never occurs again over others that all do is asked about" {
  awk 'BEGIN { print "0,1,9"; for (i = 0; i < 30; i++) print i % 5 "," i % 7 "," i % 3 }' >t.csv
  fails 1 data t.csv
  says "t.csv:1: expected a first line that is clearly a header or not" "--header yes or --header no"
  "$HEDDLE" data t.csv --header yes | grep -qx 'samples    24 to train, 6 to test'
  sed '$s/.*/1,1,9/' t.csv >again.csv
  "$HEDDLE" data again.csv | grep -qx 'samples    25 to train, 6 to test'
}

@test "a validation table beside train.csv and test.csv is said to be unused" {
  mkdir set
  awk 'BEGIN { print "a,b,label"; for (i = 0; i < 40; i++) print i % 7 "," i % 11 "," i % 3 }' >set/train.csv
  cp set/train.csv set/test.csv
  cp set/train.csv set/val.csv
  "$HEDDLE" data set | grep -qx 'note       set: not used: val.csv; --val-split holds out a part of train.csv'
}
