# heddle runs, certify and verify: a run is listed with all that it says, certified, repeated on other layouts, and
# refuted when something in it was changed. tests/fault/test_forgery changes a thousand things.

load cli

# verify CODE ARGS...: heddle verify must end with that code; what it prints in `out`.
verify() {
  local wanted=$1 code=0
  shift
  timeout "$LIMIT_S" "$HEDDLE" verify "$@" >out 2>err || code=$?
  [ "$code" -eq "$wanted" ] || { echo "verify $*: expected exit code $wanted, found $code:"; cat out err; return 1; }
}

@test "a certificate is verified on any layout, with and without the run's folder" {
  train --out r --val-split 0.1 --log-every 10
  "$HEDDLE" certify r >out
  grep -q '^certified *r/certificate.json$' out
  cp r/certificate.json alone.json
  mkdir tmp
  export TMPDIR=$PWD/tmp
  for layout in "--threads 1" "--threads 2" "--accumulate 4" "--workers 1" "--procs 2 --threads 1"; do
    verify 0 r $layout
    grep -q "^verified .* weights_sha256 $DIGEST$" out
    verify 0 alone.json $layout
  done
  HEDDLE_ISA=reference verify 0 alone.json --threads 1
  [ "$(ls -A r)" = "$(printf '%s\n' best certificate.json history.jsonl last losses.bin metrics.jsonl report.html \
    run.json step-50 wrong.png)" ]
  [ -z "$(ls -A tmp)" ]
}

@test "a run that was stopped and resumed is verified" {
  train --out r --max-steps 20 --save-every 7
  "$HEDDLE" train --resume r --max-steps 50 >out
  "$HEDDLE" certify r >/dev/null
  verify 0 r --threads 1
  train --out whole --save-every 7
  cmp r/losses.bin whole/losses.bin
  "$HEDDLE" certify whole -o whole.json --json >out
  cmp whole.json r/certificate.json
}

@test "a run whose rhythm of lines and evaluations changed when it was resumed is verified" {
  train --out r --log-every 10 --max-steps 20
  "$HEDDLE" train --resume r --log-every 4 --eval-every 8 --max-steps 50 >out
  verify 0 r
  sed -i '/"step":28.*"type":"step"/s/"loss":[0-9]/"loss":7/' r/metrics.jsonl
  verify 3 r
  grep -q '^refuted .*metrics.jsonl, line 6' out
}

@test "a run that went back to an earlier checkpoint goes on from there, also after a kill, and is verified" {
  "$HEDDLE" train --model mlp --data random:1x28x28 --batch 4 --log-every 1 --save-every 10 --keep 9 --max-steps 30 \
    --out r >out
  cp -a r kept
  "$HEDDLE" train --resume r/step-10 --max-steps 10 >out # which trains nothing
  for file in run.json metrics.jsonl losses.bin history.jsonl; do
    cmp r/$file kept/$file
  done
  start --resume r/step-10 --save-every 9999 --max-steps 9999 # lines that are not read stop it in its epoch
  await_line 'step 13:'
  kill -KILL "$CHILD"
  finish
  [ "$(readlink r/last)" = step-10 ]
  "$HEDDLE" train --resume r --save-every 10 --max-steps 20 >out
  [ "$(readlink r/last) $(ls -d r/step-30)" = "step-20 r/step-30" ]
  "$HEDDLE" certify r >out
  verify 0 r
}

@test "a resume that trains nothing leaves the run as it was" {
  train --out r --max-steps 20
  "$HEDDLE" certify r >/dev/null
  cp -r r kept
  for end in "--max-steps 10" "--max-steps 20 --keep 7" "--epochs 0.2"; do
    "$HEDDLE" train --resume r $end >out
    grep -q 'already finished at step 20' out
    cmp r/run.json kept/run.json
    cmp r/history.jsonl kept/history.jsonl
    verify 0 r
  done
  sed -i 's/"max-steps": "20"/"max-steps": "10"/' r/run.json # as an earlier heddle left it
  fails 2 certify r
  says "expected max-steps as the run had it, found 10" "step 20"
}

@test "a run that goes on in another folder takes its losses with it" {
  train --out r --max-steps 20 --log-every 10
  "$HEDDLE" train --resume r --out s --max-steps 50 >out
  [ "$(grep -o '"step":[1-9]0,' s/metrics.jsonl | uniq | tr -dc 0-9)" = 1020304050 ]
  verify 0 s
  cp -r r/step-20 alone
  "$HEDDLE" train --resume alone --out t --max-steps 50 >out
  fails 2 certify t
  says "expected the losses of all steps"
}

@test "verify refutes: the first step that differs, or the file" {
  train --out r --log-every 5
  "$HEDDLE" certify r >/dev/null
  cp -r r kept
  sed -i 's/"lr": "0.001"/"lr": "0.002"/' r/run.json r/last/run.json r/certificate.json
  verify 3 r --json
  [ "$(json_get verdict step <out)" = "refuted 2" ] # the first step's loss is that of the initial weights
  cp kept/certificate.json r/certificate.json
  verify 3 r
  grep -q '^refuted .*lr: expected "0.001", found "0.002"' out
  sed 's/"test_accuracy": 0\.[0-9]*/"test_accuracy": 0.5/' kept/certificate.json >alone.json
  verify 3 alone.json
  grep -q '^refuted .*test_accuracy: expected 0.5, found 0' out
  sed "s/$DIGEST/$(echo other weights | sha256sum | cut -d ' ' -f 1)/" kept/certificate.json >alone.json
  verify 3 alone.json
  grep -q '^refuted .*weights: expected SHA-256' out
  rm -r r && cp -r kept r
  sed -i '3s/"loss":[0-9]/"loss":7/' r/metrics.jsonl
  verify 3 r
  grep -q 'metrics.jsonl, line 3' out
}

@test "verify without a certificate refutes losses that were changed, at the first such step" {
  train --out r
  cp -r r kept
  printf '\001' | dd of=r/losses.bin bs=1 seek=240 conv=notrunc status=none
  verify 3 r --json
  [ "$(json_get verdict step <out)" = "refuted 31" ]
  fails 1 certify r
  cp kept/losses.bin r/losses.bin
  "$HEDDLE" certify r >/dev/null
  printf '\001' | dd of=r/losses.bin bs=1 seek=240 conv=notrunc status=none
  verify 3 r
  grep -q '^refuted .*losses of the steps 31 to 31' out
  rm r/certificate.json
  head -c 100 kept/losses.bin >r/losses.bin
  verify 3 r
  grep -q '^refuted .*losses.bin: expected SHA-256 .*found fewer steps' out
}

@test "verify refutes what a checkpoint states of the input and of itself, and links to another one" {
  "$HEDDLE" train --model mlp --data random:1x28x28 --max-steps 50 --save-every 20 --out r --threads 1 >out
  step=r/$(readlink r/last)
  cp $step/run.json whole.json
  for change in 's/"mean": /"mean": 1/' 's/"std": /"std": 1/' 's/"shift": -/"shift": -1/' '/"shift": /d' \
    's/"train_samples": /"train_samples": 1/' 's/"weights_sha256": "./"weights_sha256": "z/'; do
    sed "$change" whole.json >$step/run.json
    no cmp -s whole.json $step/run.json
    verify 3 r
  done
  cp whole.json $step/run.json
  verify 0 r
  ln -sfn step-20 r/last
  verify 3 r
  grep -q '^refuted r/last: expected a link to step-50, the last checkpoint, found another$' out
  ln -sfn step-50 r/last
  best=$(readlink r/best)
  ln -sfn step-20 r/best
  verify 3 r
  ln -sfn $best r/best
  verify 0 r
}

@test "verify refutes what a checkpoint states of predictions, and results that only the history has" {
  seq 1 60 | awk 'BEGIN { print "a,y" } { print $1 ".5," 2 * $1 }' >t.csv
  command -v python3 >/dev/null || skip "python3 is not installed"
  "$HEDDLE" train --model mlp --data t.csv --label y --loss mse --epochs 2 --out r --threads 1 >out
  verify 0 r
  step=r/$(readlink r/last)
  cp $step/run.json whole.json
  python3 -c 'import json, sys
record = json.load(open("whole.json"))
record["data"]["targets"][0]["mean"] += 1
json.dump(record, open(sys.argv[1], "w"))' "$step/run.json"
  verify 3 r
  grep -q "^refuted $step/run.json: targets: " out
  cp whole.json $step/run.json
  "$HEDDLE" certify r >/dev/null
  verify 0 r
  sed -i '$s/"test_loss":[0-9.e-]*/"test_loss":0.001/' r/history.jsonl
  verify 3 r
  grep -q '^refuted r/history.jsonl: test_loss: ' out
  printf 'a,kind\n' >k.csv
  seq 1 60 | awk '{ print $1 ".5," ($1 % 2 ? "odd" : "even") }' >>k.csv
  "$HEDDLE" train --model mlp --data k.csv --label kind --epochs 2 --out s --threads 1 >out
  python3 -c 'import json, sys
record = json.load(open(sys.argv[1]))
del record["data"]["class_names"]
json.dump(record, open(sys.argv[1], "w"))' "s/last/run.json"
  verify 3 s
  grep -q '^refuted .*class_names' out
}

@test "a run that went on after its certificate is refuted with the way out" {
  train --out r
  "$HEDDLE" certify r >/dev/null
  "$HEDDLE" train --resume r --max-steps 400 >out
  verify 3 r
  grep -q '^refuted r/run.json: max-steps: .*; if the run went on since, certify it again$' out
  "$HEDDLE" certify r >/dev/null
  verify 0 r
}

@test "several ranks verify: one verdict, one draw, no rank left waiting" {
  train --out r --save-every 5 --keep 99
  "$HEDDLE" certify r >/dev/null
  verify 0 r --spot 3 --procs 3 --threads 1 --json
  [ "$(json_get steps <out)" = 15 ]
  printf '\001' | dd of=r/step-20/model.safetensors bs=1 seek=2000 conv=notrunc status=none
  verify 3 r --procs 2 --threads 1
  grep -q '^refuted .*step-20' out
  verify 3 r --spot 99 --procs 2 --threads 1
  sed -i 's/"lr": "0.001"/"lr": "0.002"/' r/run.json r/certificate.json
  verify 3 r --procs 2 --threads 1 --json
  [ "$(json_get verdict step <out)" = "refuted 2" ]
  [ "$(wc -l <err)" -le 2 ] # rank 0 ended with the verdict's code
}

@test "verify cannot compare: other data, another arithmetic, no checkpoints" {
  train --out r
  "$HEDDLE" certify r >/dev/null
  verify 4 r --data random:1x28x28
  grep -q '^not comparable .*data random:1x28x28, train' out
  verify 4 r --data "$FOLDER/nowhere"
  grep -q "^not comparable .*its data cannot be read.*nowhere" out
  sed 's/"arithmetic_version": [0-9]*/"arithmetic_version": 999/' r/certificate.json >other.json
  verify 4 other.json
  grep -q '^not comparable .*version 999' out
  verify 4 other.json --spot 2
  cp r/certificate.json alone.json
  verify 4 alone.json --spot 1
  grep -q 'expected checkpoints' out
}

@test "verify --spot repeats segments, and --seed the draw" {
  train --out r --save-every 5 --keep 99
  "$HEDDLE" certify r >/dev/null
  verify 0 r --spot 3 --json
  [ "$(json_get steps <out)" = 15 ]
  seed=$(json_get seed <out)
  verify 0 r --spot 3 --seed "$seed" --threads 2 --json
  [ "$(json_get steps seed <out)" = "15 $seed" ]
  verify 0 r --spot 99
  cp r/step-20/model.safetensors r/last/ # weights of another step, whole in themselves
  for seed in 0 1 2; do
    verify 3 r --spot 1 --seed "$seed" # whatever segment is drawn
    grep -q "^refuted .*$(readlink r/last): expected weights of SHA-256" out
  done
}

@test "certify and verify: bad input" {
  fails 1 certify nowhere
  fails 1 verify nowhere
  train --out r --max-steps 10
  fails 2 verify r --spot 1 --seed 1.5
  says "--seed expects a whole number" "found '1.5'"
  sed -i '$d' r/history.jsonl # as after a kill
  fails 2 certify r
  says "expected a run that has ended"
  echo '{"certificate": 1}' >c.json
  fails 1 verify c.json
  says "expected 'arithmetic_version'"
  echo '{"certificate": 2}' >c.json
  fails 1 verify c.json
  says "version 1"
  echo 'no' >c.json
  fails 1 verify c.json
  train --out s
  "$HEDDLE" certify s -o s.json >/dev/null
  sed 's/: /:  /' s.json >c.json
  fails 1 verify c.json
  says "as heddle certify writes it"
  head -c 100 s/losses.bin >short
  cp short s/losses.bin
  fails 1 certify s
  says "losses.bin" "SHA-256"
}

@test "runs: a table, sorted and chosen, JSON and CSV" {
  for lr in 0.1 0.001 0.01; do
    train --lr "$lr" --out "runs/$lr"
  done
  mkdir runs/other
  "$HEDDLE" runs >out
  [ "$(wc -l <out)" -eq 4 ]
  grep -Eq '^runs/0.1 +simplenet +done +50 +0\.[0-9]* +0.1 ' out
  [ "$("$HEDDLE" runs runs --sort lr --columns lr --csv | xargs)" = "lr 0.001 0.01 0.1" ]
  [ "$("$HEDDLE" runs --sort -lr --columns lr --csv | xargs)" = "lr 0.1 0.01 0.001" ]
  [ "$("$HEDDLE" runs --where lr=1e-2 --columns run,weights_sha256 --csv | tail -n 1)" = "runs/0.01,$DIGEST" ]
  "$HEDDLE" runs --where lr=0.01 --json >out
  [ "$(sed 's/^\[\(.*\)\]$/\1/' out | json_get run lr state)" = "runs/0.01 0.01 done" ]
  [ "$("$HEDDLE" runs --columns run,machine.isa,init --where init= | wc -l)" -eq 4 ]
  fails 2 runs --sort nothing
  says "--sort expects a value that a run has, found 'nothing'"
  fails 2 runs --where foo=3
  says "--where expects" "'foo'"
  fails 2 runs --columns run,tset_loss
  says "--columns expects" "'tset_loss'; did you mean test_loss?"
  fails 1 runs nowhere
  echo '{"broken": ' >runs/0.1/run.json
  "$HEDDLE" runs >out 2>err
  [ "$(wc -l <out)" -eq 3 ]
  grep -q '^heddle: left out: runs/0.1/run.json:.*expected the record of a run' err
  fails 1 report runs/0.1
  says "runs/0.1/run.json:" "damaged"
  mkdir empty
  cd empty
  fails 1 runs
  says "give the folder: heddle runs DIR"
  cd ..
  fails 2 runs a b
  fails 2 runs --where lr
  fails 2 runs --columns ,
}

@test "runs without classes are listed with their test loss and R2" {
  seq 1 60 | awk 'BEGIN { print "a,y" } { print $1 ".5," 2 * $1 }' >t.csv
  "$HEDDLE" train --model mlp --data t.csv --label y --loss mse --epochs 2 --out runs/t >/dev/null
  "$HEDDLE" runs >out
  grep -Eq '^run +model +state +step +test_loss +outputs.0.r2 ' out
  "$HEDDLE" eval runs/t >scores
  [ "$(sed -n 's/^\(loss  *\|mean absolute error  *\|R2  *\)[-0-9].*/\1/p' scores | awk '{ print length }' |
    uniq | wc -l)" -eq 1 ]
  grep -Eq '^runs/t +mlp +done +[0-9]+ +[0-9.e+]+ +-?[0-9.]+ ' out
}

# read_events DIR: what TensorBoard reads there, "TAG STEP VALUE" a line; by its own code where it is installed.
read_events() {
  python3 - "$1" <<'EOF'
import glob, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
events.Reload()
for tag in events.Tags()["scalars"]:
    for one in events.Scalars(tag):
        print(tag, one.step, "%.5f" % one.value)
for tag in events.Tags()["images"]:
    for one in events.Images(tag):
        print(tag, one.step, one.width, one.height, one.encoded_image_string[1:4].decode())
EOF
}

@test "--tensorboard: TensorBoard reads scalars and pictures, and drops what a resumed run repeats" {
  python3 -c "import tensorboard" 2>/dev/null || skip "needs tensorboard (pip install tensorboard) for python3"
  train --out r --tensorboard tb --log-every 10 --save-every 20 --keep 99
  read_events tb >events
  [ "$(grep -c '^loss/step ' events)" -eq 5 ]
  grep -q "^accuracy/test 50 $(printf %.5f "$(json_get test_accuracy <out)")$" events
  grep -Eq '^wrong 50 [0-9]+ [0-9]+ PNG$' events
  "$HEDDLE" train --resume r/step-20 --max-steps 40 --out s --tensorboard tb --log-every 10 >out
  read_events tb >events
  [ "$(grep '^loss/step ' events | cut -d ' ' -f 2 | xargs)" = "10 20 30 40" ]
}

@test "--tensorboard: records have their length and checksum, and a folder that cannot be made is named" {
  train --out r --tensorboard tb --log-every 10
  python3 - tb/events.out.tfevents.* <<'EOF' || [ "$(command -v python3)" = "" ]
import struct, sys
def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
assert crc(b"123456789") == (((0xe3069283 >> 15) | (0xe3069283 << 17)) + 0xa282ead8) & 0xffffffff
data, records = open(sys.argv[1], "rb").read(), 0
while data:
    length, check = struct.unpack("<QI", data[:12])
    assert crc(data[:8]) == check and crc(data[12:12 + length]) == struct.unpack("<I", data[12 + length:16 + length])[0]
    data, records = data[16 + length:], records + 1
assert records == 1 + 5 * 3 + 3 + 1, records
EOF
  echo here >file
  fails 1 train $TINY --tensorboard file/tb
}

# certified NAME ARGS...: a run with those options is certified, and its certificate by itself verified.
certified() {
  local name=$1
  shift
  "$HEDDLE" train --data "$FEW" --max-steps 12 --threads 1 --out "$name" "$@" >out 2>err || {
    echo "$name:"
    cat out err
    return 1
  }
  "$HEDDLE" certify "$name" -o "$name.json" >out || { echo "$name:"; cat out; return 1; }
  verify 0 "$name.json" --threads 1 || { echo "$name:"; cat "$name.json"; return 1; }
}

@test "certificates of all kinds of runs are verified by themselves" {
  local of="--model simplenet --data random:1x28x28"
  certified plain $of --epochs 0.5
  certified sgd $of --optimizer sgd --momentum 0.9 --nesterov --weight-decay 1e-4 --clip-grad-norm 1 --batch 32 \
    --shards 4
  certified muon $of --optimizer muon --momentum 0.9 --ns-steps 3 --normalize-weight --adjust-lr original \
    --parameters '[{match: "*.bias", optimizer: sgd}]'
  certified lion $of --optimizer lion --weight-decay 0.1
  certified rmsprop $of --optimizer rmsprop --alpha 0.9 --momentum 0.9 --centered
  certified nadam $of --optimizer nadam --momentum-decay 0.01 --decoupled-weight-decay
  certified onecycle $of --optimizer adam --betas 0.7,0.9 --schedule onecycle --drop-last --label-smoothing 0.1
  certified step $of --schedule step --step-size 1 --gamma 0.5 --warmup 3 --ema 0.9 --patience 3 --val-split 0.1
  certified triangular $of --schedule triangular --start-factor 0.1 --end-factor 0.2 --peak 0.3
  certified linear $of --schedule linear --end-factor 0.5 --lookahead 3 --lookahead-decay 0.6 --lookahead-power 2
  certified order $of --no-shuffle --eval-epochs 2 --metric f1 --tta mirror
  certified balanced $of --sampler balanced --on-error skip
  certified rules $of --parameters '[{match: "*.bias", lr: 0.01}]' \
    --transforms '[{random_crop: {size: 28, padding: 2}}, horizontal_flip, to_float, normalise]'
  certified recipe --recipe fastmnist
  cp plain/last/model.safetensors w.safetensors
  certified init $of --init w.safetensors
  "$HEDDLE" train --resume init --max-steps 14 >out
  "$HEDDLE" certify init -o again.json >out
  verify 0 again.json --threads 1
  printf 'model: mine\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >mine.yaml
  certified file $of --model mine.yaml
  printf 'a,b,y\n1,2,3.5\n2,1,4\n0,1,2\n5,5,1\n3,2,2\n1,1,1.5\n2,2,3\n4,1,0.5\n' >numbers.csv
  printf 'model: r\ninput: [1, 1, 2]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 1}\nloss: mse\n' \
    >r.yaml
  certified numbers --model r.yaml --data numbers.csv --batch 4
  "$HEDDLE" export plain --onnx net.onnx >out
  certified onnx $of --model net.onnx --batch 32
  certified fresh $of --model net.onnx --fresh
}

# earlier FOLDER DATA: its records become those of a heddle whose rules for data had no version, on other data.
earlier() {
  find "$1" -name run.json -exec sed -i \
    '/"\(normalize\|header\|missing\|categories\|exif\|target-scale\|tokens\)": /d; s/"rules": 2/"older": 0/; '\
's/"\(data\|name\)": "set"/"\1": "'"$2"'"/' {} +
}

@test "a run of an earlier heddle keeps to its split: resumed, evaluated, certified and verified" {
  mkdir set
  echo label,a,b | tee rows.csv set/train.csv >set/test.csv
  for i in $(seq 0 19); do
    echo $((i * 7 % 5 % 2)),$i,$((i * i % 11)) >row
    case $i in 1 | 3 | 7 | 16) to=test ;; *) to=train ;; esac # the fifth of 20 by the first rules
    tee -a rows.csv <row >>set/$to.csv
  done
  printf 'model: m\ninput: [1, 1, 2]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 2}\n' >m.yaml
  local how="--model m.yaml --batch 8 --epochs 4 --threads 1 --normalize channel"
  "$HEDDLE" train $how --data set --out whole >out
  whole=$(digest_of out)
  "$HEDDLE" train $how --data rows.csv --out new >out
  [ "$(digest_of out)" != "$whole" ]
  "$HEDDLE" train $how --data set --max-steps 5 --out old >out
  earlier old rows.csv
  "$HEDDLE" eval old >of_rows
  "$HEDDLE" eval old --data set | sed "1s/, the data's test set$//" | cmp - of_rows
  verify 0 old --threads 1
  fails 2 train --resume old --max-steps 8 --exif apply
  says "exif ignore"
  "$HEDDLE" train --resume old --max-steps 8 >out
  [ "$(digest_of out)" = "$whole" ]
  no grep -q '"rules"' old/run.json
  "$HEDDLE" certify old -o old.json >out
  no grep -q '"rules"' old.json
  verify 0 old.json --threads 1
  "$HEDDLE" certify new -o new.json >out
  grep -q '"rules": 2' new.json
  verify 0 new.json --threads 1
  sed 's/"rules": 2/"rules": 3/' new.json >newer.json
  fails 1 verify newer.json
  says "newer.json" "version 2 of the data's rules"
}

@test "a certificate has the entries that heddle knows, and no others" {
  train --out r
  "$HEDDLE" certify r -o r.json >/dev/null
  # changed TEXT SED: the certificate, changed so, is refused with that text.
  changed() {
    sed "$2" r.json >c.json
    no cmp -s r.json c.json
    fails 1 verify c.json
    says "$1" || { cat c.json; return 1; }
  }
  changed "a text as 'lr' in settings, found 0.5" 's/"lr": "0.001"/"lr": 0.5/'
  changed "a text as 'lr' in settings, found [\"0.5\"]" 's/"lr": "0.001"/"lr": [\n      "0.5"\n    ]/'
  changed "no 'LR' in settings" 's/"lr": "0.001"/"LR": "0.5",\n    &/'
  changed "'lr' in settings, found none" '/"lr": "0.001"/d'
  changed "no 'top5_accuracy' in result" 's/"test_loss"/"top5_accuracy": 1.0,\n    &/'
  changed "no 'best_test_accuracy' in the certificate" 's/"steps"/"best_test_accuracy": 1.0,\n  &/'
  changed "no 'note' in data" 's/"train_samples"/"note": 1,\n    &/'
  changed "as 'weights_sha256'" 's/\("weights_sha256": "[0-9a-f]*\)"/\1deadbeef"/'
  changed "no 'init_sha256'" "s/\"data\": {/\"init_sha256\": \"$DIGEST\",\n  &/"
  changed "the model of 'model_yaml', simplenet" 's/"model": "simplenet"/"model": "mlp"/'
  changed "no 'momentum' in settings" 's/"lr": "0.001"/&,\n    "momentum": "0"/'
  changed "--lr expects a number" 's/"lr": "0.001"/"lr": "-1"/'
  changed "a list" 's/"lr": "0.001"/&,\n    "transforms": "list.yaml"/'
  changed "a number from 0.0 to 1.0" 's/"test_accuracy": 0/"test_accuracy": 1/'
  changed "a chain of" 's/"step": 2,/"step": 3,/'
}

# stopped_verify SIGNAL CODE: a verification that gets the signal says so in one line, and leaves no folder. --plain: it
# takes ten seconds, so that it has not ended when the signal comes.
stopped_verify() {
  local code=0
  mkdir -p scratch
  TMPDIR=$PWD/scratch "$HEDDLE" verify --plain long >out 2>err &
  CHILD=$!
  until [ -n "$(ls scratch)" ]; do sleep 0.02; done
  kill -"$1" "$CHILD"
  wait "$CHILD" || code=$?
  CHILD=
  [ "$code" -eq "$2" ]
  [ "$(cat err)" = "heddle: stopped by SIG$1, without a result; start it again" ]
  [ -z "$(ls -A scratch)" ]
}

@test "verify that is stopped says so, and leaves nothing" {
  "$HEDDLE" train $TINY --max-steps 12000 --epochs 300 --out long >out 2>err
  "$HEDDLE" certify long >out
  stopped_verify TERM 143
  [ $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/$$/status) & 1)) -ne 0 ] || stopped_verify HUP 129
}
