# What the command prints for people: nothing that steers a terminal, lines as wide as the screen, and the name that a
# mistyped one most likely stands for.

load cli

# It would colour, clear, beep and end a line: in ASCII, as a C1 control in UTF-8, and in a byte that is no UTF-8.
HOSTILE=$'a\033[31mb\302\2332Jc\177\ad\377e\nf'

# harmless FILE...: UTF-8 without control characters but line ends.
harmless() {
  local file
  for file; do
    [ -s "$file" ] || { echo "expected text in $file, found none"; return 1; }
    [ "$(LC_ALL=C tr -d '\n -~\200-\377' <"$file" | wc -c)" -eq 0 ] || { cat -v "$file"; return 1; }
    no grep -aq "$(printf '\302\233')" "$file" || { cat -v "$file"; return 1; }
    iconv -f UTF-8 -t UTF-8 "$file" >/dev/null || { cat -v "$file"; return 1; }
  done
}

hostile_model() {
  printf 'model: "a\\e[31mb\\u009b2Jc\\x7f\\a\\nd"\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n' >net.yaml
  printf '  - l: {op: linear, out: 10}\n' >>net.yaml
}

@test "a model's name cannot steer the terminal" {
  hostile_model
  for command in "summary" "train --max-steps 2 --out r" "tune --seconds 0.1" "bench step --seconds 0.1"; do
    "$HEDDLE" $command --model ./net.yaml >out
    harmless out
    grep -q 'a?\[31mb' out
  done
}

@test "a model's name stays what it is in JSON" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  hostile_model
  "$HEDDLE" train --model ./net.yaml --max-steps 2 --out r --json >out
  harmless out
  tail -n 1 out | python3 -c 'import json, sys
assert json.load(sys.stdin)["model"] == "a\x1b[31mb\x9b2Jc\x7f\x07\nd"'
}

@test "names of class folders cannot steer the terminal, and JSON has them; those that it cannot have are refused" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  "$BUILDDIR/tests/bits/make_data" pictures photos 40 20
  for part in train test; do
    mv photos/$part/c0 "photos/$part/$HOSTILE" || skip "names of any bytes are refused here"
  done
  fails 1 data photos
  says "photos: expected names of classes in UTF-8" "found 'a?[31mb??2Jc??d?e?f' for class 0"
  harmless err
  for part in train test; do mv "photos/$part/$HOSTILE" "photos/$part/${HOSTILE/$'\377'/}"; done
  "$HEDDLE" data photos >out
  harmless out
  grep -q 'a?\[31mb??2Jc??de?f' out
  "$HEDDLE" data photos --json >out
  harmless out
  python3 -c 'import json, sys
assert "a\x1b[31mb\x9b2Jc\x7f\x07de\nf" in json.load(sys.stdin)["class_names"]' <out
}

@test "names of files, folders, options and commands cannot steer the terminal, right or wrong" {
  train --out r
  "$BUILDDIR/tests/bits/make_data" pictures photos 40 20
  cp photos/train/c1/001.png "$HOSTILE.png" || skip "names of any bytes are refused here"
  "$HEDDLE" data digits --sheet "$HOSTILE.sheet.png" >out
  harmless out
  "$HEDDLE" train $TINY --out "$HOSTILE" >out
  harmless out
  mkdir "data$HOSTILE"
  for command in train eval predict summary data tune "$HOSTILE"; do
    "$HEDDLE" "$command" "$HOSTILE" >out 2>err || harmless err
  done
  for wrong in "--data data$HOSTILE" "--model $HOSTILE" "--recipe $HOSTILE" "--$HOSTILE=1" "--resume data$HOSTILE" \
    "--device $HOSTILE" "--cpus $HOSTILE" "--transforms $HOSTILE" "--config data$HOSTILE" "--init data$HOSTILE"; do
    fails_somehow train "${wrong%% *}" "${wrong#* }"
    harmless err
  done
  fails_somehow predict r "$HOSTILE.none.png"
  harmless err
}

fails_somehow() {
  no "$HEDDLE" "$@" >out 2>err
}

@test "names of runs cannot steer the terminal, in tables, CSV and verdicts" {
  mkdir "$HOSTILE" || skip "names of any bytes are refused here"
  train --out "$HOSTILE/r"
  for form in "" --csv --json; do
    "$HEDDLE" runs "$HOSTILE" $form --columns "run,model" >out
    harmless out
    [ "$(grep -c simplenet out)" -eq 1 ]
  done
  fails_somehow runs "$HOSTILE" --columns "run,$HOSTILE"
  harmless err
  "$HEDDLE" certify "$HOSTILE/r" >out
  harmless out
  "$HEDDLE" verify "$HOSTILE/r" >out
  harmless out
  sed -i 's/"weights_sha256": "[0-9a-f]/&0/' "$HOSTILE/r/certificate.json"
  for command in "verify" "certify" "runs"; do
    "$HEDDLE" $command "$HOSTILE/r" >out 2>err || true
    [ ! -s out ] || harmless out
    [ ! -s err ] || harmless err
  done
}

# commands: the name of every command and of every bench, a line each.
commands() {
  "$HEDDLE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
  "$HEDDLE" bench --help | sed -n 's/^  \([a-z]*\)  .*/bench \1/p'
}

@test "help fits 80 columns where nothing is known of the screen, and the columns that there are" {
  commands >all
  grep -qx verify all
  grep -qx 'bench step' all
  echo >>all # no command
  for columns in "" 80 120; do
    while read -r command; do
      COLUMNS=$columns "$HEDDLE" $command --help >out
      awk -v most="${columns:-80}" 'length > most { print; bad = 1 } END { exit bad }' out
    done <all
  done
  COLUMNS=120 "$HEDDLE" train --help >out
  awk 'length > 80 { wide = 1 } END { exit !wide }' out
}

@test "-h and help COMMAND are --help" {
  "$HEDDLE" --help >whole
  "$HEDDLE" -h | cmp - whole
  "$HEDDLE" help | cmp - whole
  commands >all
  grep -qx verify all
  grep -qx 'bench step' all
  while read -r command; do
    "$HEDDLE" $command --help >wanted
    "$HEDDLE" $command -h | cmp - wanted
    "$HEDDLE" help $command | cmp - wanted
  done <all
  fails 2 help weave
  says "found 'weave'"
}

@test "a mistyped command, option, model or key is answered with the nearest" {
  refuses <<'END'
    2 trian | found 'trian'; did you mean train?
    2 help summray | did you mean summary?
    2 bench gem | did you mean gemm?
    2 train --bacth-size 3 | found '--bacth-size'; did you mean --batch-size?
    2 train --Epochs=3 | did you mean --epochs?
    2 launch --rnaks 2 -- true | did you mean --ranks?
    2 train --model mnist99 | did you mean mnist-99?
END
  printf 'epochs: 1\nbatchsize: 3\n' >c.yaml
  fails 2 train --config c.yaml
  says "c.yaml:2" "found 'batchsize'; did you mean 'batch-size'?"
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - c: {op: conv2d, kernle: 3}\n' >net.yaml
  fails 1 train --model ./net.yaml
  says "net.yaml:4" "'kernle'; did you mean 'kernel'?"
}

@test "options are written in full: the beginning of one, or of several, is refused" {
  fails 2 train --e 3
  says "found '--e'" "--epochs" "--eps" "--eval-every" "--eval-transforms"
  fails 2 train --ev=3
  says "found '--ev=3'" "--eval-every" "--eval-transforms"
  for word in "--label-smooth 0.1" --label-smooth=0.1; do
    fails 2 train $TINY $word
    says "in full, found '${word% *}'" "write --label-smoothing"
  done
  fails 2 train $TINY --js
  says "found '--js'" "write --json"
  fails 1 train $TINY --label 0.1 --epochs 1 || fails 2 train $TINY --label 0.1 --epochs 1
  [ ! -e runs ]
}

@test "output of doctor, summary, tune and topo is broken between words to fit 80 columns" {
  export COLUMNS=80
  code=0
  "$HEDDLE" doctor --threads 1000 >doctor || code=$?
  [ "$code" -eq 3 ]
  for model in allconv cifar-94 cifar-fast cifar-resnet cnn fastmnist lenet5 mlp mnist-99 regression resnet simplenet
  do
    "$HEDDLE" summary --model $model >"summary-$model"
  done
  "$HEDDLE" tune --model simplenet --seconds 0.1 >tune
  HWLOC_SYNTHETIC="pack:2 core:1 pu:2" "$HEDDLE" tune --model simplenet --seconds 0.1 >placements
  "$HEDDLE" topo >topo
  for file in doctor summary-* tune placements topo; do
    awk -v name="$file" 'length > 80 { print name ": " $0; bad = 1 } END { exit bad }' "$file"
  done
  for file in summary-* tune placements; do # a row is a line
    no grep -Ex ' *[0-9,.]+| *best' "$file"
  done
}

@test "results of a training, plans, sweeps and runs fit 80 columns, a row in a line" {
  export COLUMNS=80
  "$HEDDLE" train $TINY --epochs 2 --max-steps 100 --val-split 0.2 --eval-every 20 --out r >results
  [ "$(grep -Ec '^step [0-9]+: validation [0-9.]+ \([0-9.]+ %\), test [0-9.]+ \([0-9.]+ %\)$' results)" -eq 4 ]
  grep -Eq '^epoch 1: loss [0-9.]+, (validation|test) .*[0-9)]$' results
  COLUMNS=120 "$HEDDLE" train $TINY --val-split 0.2 --out wide | grep -E '^epoch 1: ' >wide.out
  grep -Eq '^epoch 1: loss [0-9.]+, validation loss [0-9.]+, accuracy [0-9.]+ %, test loss .* samples/s$' wide.out
  for model in cnn cifar-94; do
    "$HEDDLE" summary --plan --model $model >plan-$model
    no grep -Ev '^$|^ |^[0-9]+ +[a-z_0-9]+ |^(a step|an evaluation|phase|param|per sample)' plan-$model
  done
  "$HEDDLE" sweep lr=0.01,0.02 batch=32,64 weight-decay=0.0125,0.00125 label-smoothing=0.0125,0.1 $TINY --max-steps 4 \
    --jobs 2 --out s >sweep
  awk '/runs done, test_accuracy; best first/ { caption = NR }
    /^settings / { seen = 1; exit }
    END { exit !(seen && caption) }' sweep
  "$HEDDLE" runs . --columns run,machine.cpu,command,model,test_loss,lr >runs
  [ "$(wc -l <runs)" -eq 3 ]
  grep -Eq '^\./r .*\.\. .* simplenet +[0-9.]+ +0\.001$' runs
  "$HEDDLE" runs . --columns run,state,step,time,train_loss,test_loss,val_loss,test_accuracy,samples_per_s,lr >lines
  grep -Eqx 'samples_per_s  [0-9.e+]+' lines
  for file in results plan-* runs lines; do
    awk -v name="$file" 'length > 80 { print name ": " $0; bad = 1 } END { exit bad }' "$file"
  done
  awk 'length > 80' sweep | no grep -v '^run-0'
}

@test "lines for programs are as long as they are" {
  "$HEDDLE" tune --model simplenet --seconds 0.1 >tune
  grep -Eqx 'weights_sha256  [0-9a-f]{64} after [0-9]+ steps, at every setting' tune
  code=0
  "$HEDDLE" doctor --threads 1000 >doctor || code=$?
  grep -q '^[0-9]* checks for .*, shm-size$' doctor
}

# chunks: what `screen` has between returns, without codes.
chunks() {
  tr '\r' '\n' <screen | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' | grep -a '^\['
}

@test "a progress line is no wider than the screen, and is none where a launcher reads it" {
  need_terminal
  "$BUILDDIR/tests/cli/on_terminal" 24x60 screen wait:table_sha256 -- "$HEDDLE" sweep seed=0..5 $TINY --jobs 1 \
    --out s || true
  chunks >lines
  [ -s lines ]
  grep -q ' left' lines
  [ "$(awk '{ print length($0) }' lines | sort -n | tail -n 1)" -lt 60 ]
  MPI_LOCALNRANKS=1 "$BUILDDIR/tests/cli/on_terminal" 24x120 screen wait:weights_sha256 -- "$HEDDLE" train $TINY \
    --out r || true
  grep -aq 'weights_sha256' screen
  no chunks
  no grep -aq $'\x1b' screen
}

@test "an argument of a line has no control characters" {
  "$HEDDLE" data digits --sheet sheet.png >out
  grep -qx 'sheet      sheet.png' out
  no grep -q '?' out
}
