# heddle train, and what eval and digest make of its checkpoints.

load cli

keys="model data epochs steps batch shards accumulate threads ranks workers device arithmetic isa seed train_loss \
test_loss test_accuracy startup_s train_s wall_s samples_per_s peak_rss_bytes arithmetic_version weights_sha256 out \
report"

@test "--json: the last line is one object with exactly the promised keys" {
  train
  [ "$(json_keys <out)" = "$keys" ]
  [ "$(grep -c '^{' out)" -eq 1 ]
  [ ! -s err ]
}

@test "--json: the values describe the run" {
  train --data digits --batch 32 --seed 7 --epochs 2 --accumulate 2 --out there
  [ "$(json_get model data device <out)" = "simplenet digits cpu" ]
  [ "$(json_get epochs steps batch <out)" = "2 50 32" ]
  [ "$(json_get accumulate seed out <out)" = "2 7 there" ]
  [ "$(json_get ranks workers arithmetic <out)" = "1 0 portable" ]
  accuracy=$(json_get test_accuracy <out)
  [[ "$accuracy" == 0.* ]]
  awk -v a="$accuracy" 'BEGIN { exit !(a > 0.5 && a < 1) }'
  awk -v w="$(json_get wall_s <out)" -v s="$(json_get startup_s <out)" -v t="$(json_get train_s <out)" \
    'BEGIN { exit !(s > 0 && t > 0 && w >= s + t) }'
}

@test "--ema evaluates what it saves, trains as without it, and keeps the trained weights beside" {
  losses() { grep -o '"loss":[0-9.e+-]*' "$1/metrics.jsonl"; }
  train --log-every 1 --out plain
  [ "$(losses plain | wc -l)" -ge 50 ]
  for procs in 1 2; do
    train --log-every 1 --ema 0.9 --procs $procs --out ema$procs
    "$HEDDLE" eval ema$procs --json >evaluated
    [ "$(json_get test_loss <out)" = "$(json_get loss <evaluated)" ]
    [ "$(losses ema$procs)" = "$(losses plain)" ]
    grep -q 'fc.weight.trained' ema$procs/last/state.safetensors
  done
  train --lookahead 5 --out slow
  grep -q 'fc.weight.slow' slow/last/state.safetensors
}

@test "with loader workers the end reports how long threads waited for them" {
  train --workers 2
  [ "$(json_keys <out)" = "${keys/train_s wall_s/train_s waited_s wall_s}" ]
  [ "$(json_get workers <out)" = 2 ]
  awk -v w="$(json_get waited_s <out)" -v t="$(json_get train_s <out)" 'BEGIN { exit !(w >= 0 && w <= t) }'
  grep -q '^waited  *[0-9.]* s for 2 loader workers, [0-9.]* % of that time$' out
}

@test "--json: a folder's name with quotes, backslash and accents is still valid JSON" {
  name='a "b" \c é'
  train --out "$name"
  [ "$(json_get out <out)" = "$name" ]
  [ -f "$name/last/model.safetensors" ]
}

@test "without --json no line is JSON, and the end prints digest and folder" {
  "$HEDDLE" train $TINY >out
  no grep -q '^{' out
  grep -q '^saved  *runs/simplenet-1$' out
  grep -Eq '^weights_sha256  *[0-9a-f]{64}$' out
}

@test "--epochs may be a fraction: its steps, an evaluation, and schedules that end with it" {
  "$HEDDLE" train --model simplenet --data "$FEW" --batch 64 --epochs 1.26 --schedule linear --log-every 1 --out r \
    --json >out
  [ "$(json_get epochs steps <out)" = "1.26 76" ] # 75.6, 60 an epoch
  [ "$(readlink r/last)" = step-76 ]
  [ "$(json_get test_accuracy <out)" != null ]
  last=$(grep '"loss"' r/metrics.jsonl | tail -n 1)
  [ "$(echo "$last" | json_get step epoch)" = "76 1" ]
  awk -v lr="$(echo "$last" | json_get lr)" 'BEGIN { exit !(lr > 0.0000131 && lr < 0.0000132) }' # 0.001 / 76
  wanted=$(digest_of out)
  "$HEDDLE" train --model simplenet --data "$FEW" --batch 64 --epochs 1.26 --schedule linear --max-steps 70 --out part \
    >out
  "$HEDDLE" train --resume part --max-steps 76 >out
  [ "$(digest_of out)" = "$wanted" ]
  "$HEDDLE" train --model simplenet --data "$FEW" --epochs 0.00001 --json >out
  [ "$(json_get epochs steps <out | sed 's/1e-05/0.00001/')" = "0.00001 1" ]
}

@test "runs without --out get the next free number" {
  train
  [ "$(json_get out <out)" = runs/simplenet-1 ]
  train
  [ "$(json_get out <out)" = runs/simplenet-2 ]
}

@test "a run's folder holds what is promised" {
  train --out r --log-every 10 --save-every 20
  for path in run.json metrics.jsonl wrong.png report.html step-20 step-40 step-50 last best; do [ -e "r/$path" ]; done
  [ "$(ls -A r | wc -l)" -eq 11 ]
  [ "$(readlink r/last)" = step-50 ]
  [ -L r/best ]
  for step in r/step-*; do
    [ "$(ls -A "$step" | tr '\n' ' ')" = "model.safetensors run.json state.safetensors " ]
  done
  [ "$(head -c 8 r/wrong.png | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]
  [ "$(tail -c 8 r/wrong.png | od -An -c | tr -d ' ' | cut -c 1-4)" = IEND ]
}

@test "metrics.jsonl has a line each --log-every steps, with the promised keys" {
  train --out r --log-every 10 --lr 0.25
  grep '"type":"step"' r/metrics.jsonl >lines
  [ "$(wc -l <lines)" -eq 5 ]
  step=10
  while read -r line; do
    [ "$(json_keys <<<"$line")" = "step epoch loss lr samples_per_s type" ]
    [ "$(json_get step epoch lr <<<"$line")" = "$step 0 0.25" ]
    step=$((step + 10))
  done <lines
}

@test "metrics.jsonl has a line for each evaluation, with the accuracy of each class" {
  train --out r --max-steps 20 --eval-every 10
  grep '"type":"evaluation"' r/metrics.jsonl >lines
  [ "$(wc -l <lines)" -eq 2 ]
  tail -n 1 lines >line
  [ "$(json_keys <line)" = "step epoch train_loss test_loss test_accuracy test_classes type" ]
  [ "$(json_get step <line)" = 20 ]
  [ "$(json_get test_classes.9 <line)" != null ]
  for key in train_loss test_loss test_accuracy; do
    awk -v a="$(json_get $key <out)" -v b="$(json_get $key <line)" 'BEGIN { exit !((a - b) ^ 2 < 1e-16) }'
  done
}

@test "--eval-epochs: evaluations after every so many epochs and at the end, and each epoch's loss all the same" {
  options="--model simplenet --data $FEW --batch 512 --epochs 5 --lr 0.01"
  "$HEDDLE" train $options --out all >all.out
  "$HEDDLE" train $options --eval-epochs 2 --out some >some.out
  [ "$(digest_of some.out)" = "$(digest_of all.out)" ]
  [ "$(grep -c '^epoch [135]: loss [0-9.]*, [0-9,]* samples/s$' some.out)" -eq 2 ] # the fifth is the last
  [ "$(grep -c '^epoch [245]: loss [0-9.]*, test loss ' some.out)" -eq 3 ]
  for run in all some; do grep -o '^epoch [0-9]*: loss [0-9.]*' $run.out >$run.losses; done
  cmp all.losses some.losses
  [ "$(grep '"type":"evaluation"' some/metrics.jsonl | while read -r line; do json_get step <<<"$line"; done |
    paste -sd ' ')" = "16 32 40" ]
  [ "$(tail -n 1 some/metrics.jsonl)" = "$(tail -n 1 all/metrics.jsonl)" ]
  # Patience is counted in epochs, of which two pass between two looks.
  fails 2 train $options --eval-epochs 0
  "$HEDDLE" train $options --lr 0 --epochs 9 --eval-epochs 2 --patience 3 --out none >out
  grep -q '^ended early: no lower test loss for 4 epochs' out
  [ "$(readlink none/last)" = step-48 ]
  # Evaluations between count no epochs, and neither does that of an end at which another run goes on.
  "$HEDDLE" train $options --lr 0 --epochs 9 --eval-epochs 2 --eval-every 8 --patience 3 --out more >out
  grep -q '^ended early: no lower test loss for 4 epochs' out
  [ "$(readlink more/last)" = step-48 ]
  "$HEDDLE" train $options --lr 0 --epochs 5 --eval-epochs 2 --patience 3 --out again >out
  "$HEDDLE" train --resume again --epochs 9 >out
  [ "$(readlink again/last)" = step-48 ]
}

@test "the logged learning rate follows the schedule and its warm-up" {
  printf 'data: %s\nbatch: 512\nlog-every: 1\nlr: 0.5\n' "$FEW" >c.yaml
  while read -r wanted options; do
    "$HEDDLE" train --model simplenet --config c.yaml --epochs 2 $options --out r >out
    [ "$(while read -r line; do json_get lr <<<"$line"; done < <(grep '"lr"' r/metrics.jsonl) | paste -sd ' ' |
      cut -c 1-${#wanted})" = "${wanted//,/ }" ]
    rm -r r
  done <<'EOF'
0.5,0.5 --schedule const
0.125,0.25,0.375,0.5,0.5 --schedule const --warmup 4
0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.125,0.125 --schedule step --step-size 1 --gamma 0.25
0.25,0.5,0.5,0.4 --schedule cosine --warmup 2
EOF
}

@test "--val-split: validation in JSON, metrics and progress; the training set is that much smaller" {
  train --out r --val-split 0.92 --max-steps 12 --log-every 1
  [ "$(json_keys <out)" = "${keys/test_loss/val_loss val_accuracy test_loss}" ]
  grep -Eq '^epoch 1: loss [0-9.]*, validation loss [0-9.]*, validation accuracy [0-9.]* %, test loss' out
  grep -q '^validation  *[0-9.]* % of 3,533$' out
  awk -v l="$(json_get val_loss <out)" -v a="$(json_get val_accuracy <out)" \
    'BEGIN { exit !(l > 0 && a > 0.3 && a < 1) }'
  grep val_loss r/metrics.jsonl >lines # 307 samples are 5 batches: after the steps 5 and 10, and at the end
  [ "$(wc -l <lines)" -eq 3 ]
  [ "$(json_keys <lines)" = "step epoch train_loss val_loss val_accuracy test_loss test_accuracy test_classes type" ]
  tail -n 1 lines >line
  [ "$(json_get step epoch <line)" = "12 2" ]
  awk -v a="$(json_get val_loss <out)" -v b="$(json_get val_loss <line)" 'BEGIN { exit !((a - b) ^ 2 < 1e-16) }'
  [ "$(wc -l <r/metrics.jsonl)" -eq 15 ]
  wanted=$DIGEST
  for layout in "--threads 1" "--threads 3 --accumulate 4"; do
    train --val-split 0.92 --max-steps 12 $layout
    [ "$DIGEST" = "$wanted" ]
  done
}

@test "best follows validation where there is a split" {
  train --out r --val-split 0.001 --save-every 3 --eval-every 3 --lr 0.1 --keep 99 # 60 samples: a noisy measure
  best=$(grep val_loss r/metrics.jsonl | while read -r line; do json_get val_accuracy step <<<"$line"; done |
    sort -k 1,1gr -k 2,2n | head -n 1)
  [ "$(readlink r/best)" = "step-${best#* }" ]
}

@test "--patience ends a run, after a resume too, and the resumed run is over" {
  # Of a learning rate of 0 comes no better loss: the first epoch is the best.
  options="--model simplenet --data $FEW --epochs 9 --val-split 0.835 --lr 0 --patience 3"
  "$HEDDLE" train $options --out r --json >out
  grep -q '^ended early: no lower validation loss for 3 epochs$' out
  [ "$(json_get steps epochs <out)" = "40 9" ]
  for at in 10 25 35; do
    "$HEDDLE" train $options --out s --max-steps $at >out
    no grep -q '^ended early' out
    "$HEDDLE" train --resume s --max-steps 1000 --json >out
    [ "$(json_get steps <out)" = 40 ]
    "$HEDDLE" train --resume s --max-steps 1000 --json >out
    grep -q '^ended early' out
    no grep -q '^--patience goes by' out
    [ "$(json_get steps <out)" = 40 ]
    rm -r s
  done
  "$HEDDLE" train --model simplenet --data "$FEW" --epochs 4 --batch 1920 --lr 0 --patience 1 --json >out
  grep -q '^ended early: no lower test loss for 1 epoch$' out
  grep -q '^--patience goes by the test set' out
  [ "$(json_get steps <out)" = 4 ]
}

@test "heddle digest prints the digest of train, which includes running statistics and counts of batches" {
  train --model "$SRCDIR/tests/bits/norm.yaml" --max-steps 2 --out r
  [ "$("$HEDDLE" digest r)" = "$DIGEST" ]
  fails 1 digest r/last/state.safetensors
  says "tensors of floats"
}

@test "rules for parameters: from --parameters, --config and the model alike; frozen ones stay and have no state" {
  train --out start --max-steps 1 --lr 0 --weight-decay 0
  train --out r --parameters '[{match: "fc.w*", requires_grad: false}, {match: fc.bias, lr: 0.01, weight_decay: 0}]'
  wanted=$DIGEST
  [ "$(tensor_of start/last/model.safetensors fc.weight)" = "$(tensor_of r/last/model.safetensors fc.weight)" ]
  [ "$(tensor_of start/last/model.safetensors fc.bias)" != "$(tensor_of r/last/model.safetensors fc.bias)" ]
  grep -q '(7,850 parameters, 10 trainable)' out
  head -c 2000 r/last/state.safetensors | grep -aq '"fc.bias.exp_avg"'
  no grep -aq '"fc.weight.exp_avg' r/last/state.safetensors
  printf 'parameters:\n  - match: fc.w*\n    requires_grad: false\n  - {match: fc.bias, lr: 0.01, weight_decay: 0}\n' \
    >p.yaml
  train --config p.yaml
  [ "$DIGEST" = "$wanted" ]
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >m.yaml
  cat p.yaml >>m.yaml
  "$HEDDLE" train $TINY --model m.yaml >out
  [ "$(digest_of out)" = "$wanted" ]
  # Rules of --config come after the model's.
  "$HEDDLE" train $TINY --model m.yaml --parameters '[{match: fc.weight, requires_grad: true}]' >out
  [ "$(digest_of out)" != "$wanted" ]
  no grep -q trainable out
}

@test "shared parameters are one in files, their other name is noted, and files that hold both are read" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc1: {op: linear, out: 10}\n' >m.yaml
  printf '  - fc2: {op: linear, out: 10}\n  - fc3: {op: linear, out: 10, share: fc2}\n' >>m.yaml
  "$HEDDLE" train $TINY --model m.yaml --out r >out
  grep -q '(7,960 parameters)' out
  cat >edit.py <<'EOF'
import json, struct, sys
data = open("r/last/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + n]), data[8 + n:]
meta = header.pop("__metadata__")
assert meta == {"format": "pt", "fc3.weight": "fc2.weight", "fc3.bias": "fc2.bias"}, meta
assert sorted(header) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"], sorted(header)
for name, other in (("fc3.weight", 0), ("fc3.bias", int(sys.argv[1]))): # as torch.save of a state_dict has them
    entry = dict(header[meta[name]])
    lo, hi = entry["data_offsets"]
    piece = bytearray(body[lo:hi])
    piece[0] ^= other
    entry["data_offsets"] = [len(body), len(body) + hi - lo]
    body, header[name] = body + bytes(piece), entry
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("both.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
EOF
  python3 edit.py 0
  "$HEDDLE" train $TINY --model m.yaml --max-steps 1 --lr 0 --weight-decay 0 --init both.safetensors >out2
  [ "$(digest_of out2)" = "$(digest_of out)" ]
  python3 edit.py 1
  fails 1 train $TINY --model m.yaml --init both.safetensors
  says both.safetensors "'fc3.bias'" "'fc2.bias'"
}

@test "a resumed run keeps its rules, and refuses others" {
  rules='[{match: fc.weight, requires_grad: false}]'
  train --out r --parameters "$rules"
  wanted=$DIGEST
  train --out s --parameters "$rules" --max-steps 20
  "$HEDDLE" train --resume s --max-steps 50 --parameters '[ {"match": "fc.weight", requires_grad: false} ]' >out
  [ "$(digest_of out)" = "$wanted" ]
  fails 2 train --resume s --max-steps 60 --parameters '[{match: fc.bias, requires_grad: false}]'
  says parameters fc.weight fc.bias
  "$HEDDLE" eval r >/dev/null
}

@test "run.json records every setting, the data's checksums, the version and the machine" {
  train --out r --lr 0.25 --seed 3
  tr '\n' ' ' <r/run.json >flat
  [ "$(json_get settings.lr settings.seed settings.model <flat)" = "0.25 3 simplenet" ]
  [[ "$(json_get data.xxh3.3 <flat)" =~ ^[0-9a-f]{16}$ ]]
  [ "heddle $(json_get heddle <flat)" = "$("$HEDDLE" --version | head -n 1)" ]
  [ -n "$(json_get machine.cpu <flat)" ]
  cmp r/run.json r/last/run.json
}

@test "--keep K keeps the K newest checkpoints" {
  train --out r --save-every 10 --keep 2
  [ "$(cd r && echo step-*)" = "step-40 step-50" ]
  train --out s --save-every 10 --keep 1
  [ "$(cd s && echo step-*)" = "step-50" ]
}

@test "--keep leaves alone what only looks like a checkpoint, and comes to an end" {
  mkdir -p r/step-007 r/step-+1
  timeout -k 1 "$LIMIT_S" "$HEDDLE" train $TINY --keep 1 --save-every 10 --out r >out
  [ -d r/step-007 ]
  [ -d r/step-+1 ]
  [ -d r/step-50 ]
  [ ! -e r/step-10 ]
  [ ! -e r/step-20 ]
}

@test "a file under the name of a checkpoint is refused before the first step, and stays" {
  for name in step-50 step-7 best; do
    mkdir r
    echo mine >"r/$name"
    fails 1 train $TINY --out r
    says "r/$name: expected a" "or nothing in its place, found a file; move that away"
    [ "$(cat "r/$name")" = mine ]
    [ "$(ls -A r)" = "$name" ]
    rm -r r
  done
  train --out r --max-steps 20
  rm r/last
  cp -r r/step-20 r/last
  fails 1 train $TINY --resume r
  says "r/last: expected a link or nothing in its place, found a folder"
}

@test "--keep never removes what best names" {
  train --out r --save-every 10 --eval-every 10 --keep 2 --lr 0
  [ "$(readlink r/best) $(readlink r/last)" = "step-10 step-50" ]
  [ "$(cd r && echo step-*)" = "step-10 step-50" ]
}

@test "--config: options from YAML, under names with - or _; the command line wins, wherever it stands" {
  printf 'model: simplenet\ndata: %s\nmax_steps: 50\nbatch-size: 32\n' "$FEW" >c.yaml
  printf 'log_every: 10\nbetas: [0.8, 0.99]\nno-shuffle: true\n' >>c.yaml
  train --batch 32 --betas 0.8,0.99 --no-shuffle
  wanted=$DIGEST
  "$HEDDLE" train --config c.yaml --json >out
  [ "$(json_get batch steps <out)" = "32 50" ]
  [ "$(json_get weights_sha256 <out)" = "$wanted" ]
  [ "$(grep -c '"loss"' "$(json_get out <out)/metrics.jsonl")" -eq 5 ]
  "$HEDDLE" train --max-steps 40 --config c.yaml --json >out
  [ "$(json_get batch steps <out)" = "32 40" ]
  "$HEDDLE" train --config c.yaml --batch-size 16 --json >out
  [ "$(json_get batch steps <out)" = "16 50" ]
}

@test "eval agrees with train, on a run's folder and on a step's" {
  train --out r --save-every 20
  loss=$(json_get test_loss <out) accuracy=$(json_get test_accuracy <out)
  for folder in r r/ r/last r/step-50; do
    "$HEDDLE" eval "$folder" --json >eval 2>err
    [ ! -s err ]
    [ "$(json_keys <eval)" = "loss accuracy per_class confusion f1 auc samples part" ]
    [ "$(json_get loss accuracy <eval)" = "$loss $accuracy" ]
  done
  [ "$(json_get confusion.9 <eval | tr -cd , | wc -c)" -eq 9 ]
  [ "$(json_get confusion <eval | tr -d '[]' | tr , '\n' | awk '{ n += $1 } END { print n }')" -eq 600 ]
  "$HEDDLE" eval r/step-20 --json >eval
  [ "$(json_get loss <eval)" != "$loss" ]
  "$HEDDLE" eval r >text
  grep -q '^accuracy ' text
}

@test "digest agrees with train, on a run's folder, a step's, and the file itself" {
  train --out r --save-every 20
  for path in r r/ r/last r/step-50 r/step-50/model.safetensors; do
    [ "$("$HEDDLE" digest "$path")" = "$DIGEST" ]
  done
  [ "$("$HEDDLE" digest r --json | json_get weights_sha256)" = "$DIGEST" ]
  [ "$("$HEDDLE" digest r/step-20)" != "$DIGEST" ]
}

@test "threads, accumulation and instruction set are reported and leave the digest alone" {
  train
  wanted=$DIGEST
  train --threads 3
  [ "$(json_get threads <out) $DIGEST" = "3 $wanted" ]
  OMP_NUM_THREADS=2 train
  [ "$(json_get threads <out) $DIGEST" = "2 $wanted" ]
  train --accumulate 4
  [ "$(json_get accumulate <out) $DIGEST" = "4 $wanted" ]
  HEDDLE_ISA=scalar train
  [ "$(json_get isa <out) $DIGEST" = "scalar $wanted" ]
}

# room_for N: N processes may be started; a limit that cannot be read is none.
room_for() {
  local most=$(cat /sys/fs/cgroup/pids.max 2>/dev/null || echo max) own=$(ulimit -u)
  [ "$most" = max ] || [ "$most" -ge "$1" ] || return 1
  [ "$own" = unlimited ] || [ "$own" -ge "$1" ]
}

@test "as many threads as there may be come to the same weights, of whatever speed they are" {
  room_for 4096 || skip "there is a limit on processes"
  mkdir few && "$BUILDDIR/tests/bits/make_idx" few 138 50
  train --data few --max-steps 1 --threads 1
  local alone=$DIGEST
  HEDDLE_THREAD_SPEEDS=1,2 train --data few --max-steps 1 --threads 1024
  [ "$DIGEST" = "$alone" ]
  [ "$(json_get threads <out)" = 1024 ]
}

@test "speeds of 0 for all threads of a stage are refused" {
  TINY="--model mlp --max-steps 5 --data $FEW"
  HEDDLE_THREAD_SPEEDS=1,0 fails 2 train $TINY --threads 2 --stages 2 --out r
  says "HEDDLE_THREAD_SPEEDS: expected a speed above 0 for a thread of each stage, found 0 for all 1 of stage 1"
  HEDDLE_THREAD_SPEEDS=1,0,1 train --threads 3 --stages 2
}

@test "a small stack grows, and a limit that is too small for it is refused" {
  train --max-steps 2
  local wanted=$DIGEST
  (ulimit -S -s 64 && train --max-steps 2 && [ "$DIGEST" = "$wanted" ])
  OMP_STACKSIZE=32k train --max-steps 2 --threads 2
  [ "$DIGEST" = "$wanted" ]
  for command in "train $TINY --max-steps 2" topo "summary --model simplenet" --version; do
    (ulimit -s 128 && fails 1 $command && says "expected a stack of 256 KB" "ulimit -s")
  done
}

@test "a finished run is resumed by more steps, under the same folder, and ends as an undisturbed one" {
  train --out whole --log-every 10
  wanted=$DIGEST loss=$(json_get train_loss <out)
  train --out r --log-every 10 --max-steps 30
  "$HEDDLE" train --resume r --max-steps 50 --log-every 10 --json >out
  [ "$(json_get weights_sha256 out steps <out)" = "$wanted r 50" ]
  [ "$(json_get train_loss <out)" = "$loss" ]
  [ "$(grep '"loss"' r/metrics.jsonl | cut -d , -f 1-4)" = "$(grep '"loss"' whole/metrics.jsonl | cut -d , -f 1-4)" ]
  "$HEDDLE" train --resume r/step-30 --out elsewhere --max-steps 50 --json >out
  [ "$(json_get weights_sha256 out <out)" = "$wanted elsewhere" ]
}

@test "a run of any optimizer and schedule can be resumed" {
  while read -r options; do
    train $options --out whole
    "$HEDDLE" train $TINY $options --max-steps 20 --out part >out
    "$HEDDLE" train --resume part --max-steps 50 >out
    [ "$(digest_of out)" = "$DIGEST" ]
    rm -r whole part
  done <<'EOF'
--optimizer sgd
--optimizer sgd --momentum 0.9 --nesterov --weight-decay 0.001
--optimizer adam --schedule onecycle --epochs 1 --clip-grad-norm 1
EOF
}

@test "metrics that cannot be read when a run is resumed are not replaced" {
  train --out r
  rm r/metrics.jsonl
  ln -s metrics.jsonl r/metrics.jsonl # a link to itself: unreadable, for root too
  fails 1 train --resume r --max-steps 55
  says "r/metrics.jsonl" "cannot read it"
  [ "$(readlink r/metrics.jsonl)" = metrics.jsonl ]
  nothing_half_written r
}

@test "a resumed run keeps its checkpoints and its rhythm" {
  train --out r --keep 9 --save-every 10 --log-every 5
  "$HEDDLE" train --resume r --max-steps 60 >out
  [ "$(cd r && ls -d step-* | wc -l)" -eq 6 ]
  [ "$(grep -c '"loss"' r/metrics.jsonl)" -eq 12 ]
}

@test "a checkpoint is resumed from inside its folder; one by itself needs --out" {
  train --out r --save-every 10
  cp -r r/step-30 alone
  (cd r/step-50 && "$HEDDLE" train --resume . --max-steps 60 >/dev/null)
  [ "$(readlink r/last)" = step-60 ]
  code=0
  "$HEDDLE" train --resume alone --max-steps 50 >out 2>err || code=$?
  [ "$code" -eq 2 ]
  grep -q '^heddle: .*--out' err
  [ "$(ls -A)" = "$(printf 'alone\nerr\nout\nr')" ]
  "$HEDDLE" train --resume alone --out new --max-steps 50 >out
  [ "$(digest_of out)" = "$DIGEST" ]
}

@test "--init starts from a file's weights" {
  train --out r
  "$HEDDLE" train $TINY --max-steps 1 --lr 0 --init r/last/model.safetensors --json >out
  [ "$(json_get weights_sha256 <out)" = "$DIGEST" ]
}

@test "closed standard streams: nothing that is printed goes into a file of the run" {
  local code=0
  "$HEDDLE" train $TINY --log-every 1 --save-every 5 --keep 99 --out r <&- >&- 2>&- || code=$?
  [ "$code" -eq 1 ] # the output was lost
  [ "$(wc -l <r/metrics.jsonl)" -ge 50 ]
  [ -z "$(grep -v '^{"step":.*}$' r/metrics.jsonl)" ]
  for step in r/step-*; do "$HEDDLE" digest "$step" >/dev/null; done
}

@test "not on a terminal: plain lines" {
  "$HEDDLE" train $TINY --log-every 25 >out
  [ "$(grep -c '^epoch 1, step [0-9]*: loss ' out)" -eq 2 ]
  no grep -q "$(printf '[\r\033]')" out
}

@test "on a terminal: a progress line, and no colour with NO_COLOR" {
  script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "script is not installed, or there are no terminals"
  TERM=xterm NO_COLOR=1 script -qec "'$HEDDLE' train $TINY --log-every 25" /dev/null >out </dev/null
  grep -q "$(printf '\r')"'\[[#.]*\] epoch 1, step ' out
  no grep -q '^epoch 1, step [0-9]*: loss ' out
  no grep -Eq "$(printf '\033')"'\[[0-9;]*m' out
  TERM=dumb script -qec "'$HEDDLE' train $TINY" /dev/null >out </dev/null
  no grep -q "$(printf '\033')" out
}

@test "dropout acts in training, and evaluation leaves it out" {
  for p in 0 0.9; do
    printf '%s\n' 'model: d' 'input: [1, 28, 28]' 'layers:' '  - f: {op: flatten}' "  - d: {op: dropout, p: $p}" \
      '  - l: {op: linear, out: 10}' "  - e: {op: dropout, p: $p}" >d.yaml
    "$HEDDLE" train $TINY --model d.yaml --max-steps 1 --lr 1e-30 --json --out "r$p" >"out$p"
  done
  [ "$(json_get test_loss test_accuracy <out0)" = "$(json_get test_loss test_accuracy <out0.9)" ]
  [ "$(json_get train_loss <out0)" != "$(json_get train_loss <out0.9)" ]
}

@test "a resumed run that has nothing left to do reports that, and no speed" {
  train --out r
  wanted=$DIGEST
  "$HEDDLE" train --resume r >out
  grep -Eq '^trained  *already finished at step 50;' out
  no grep -q '[^0-9]0 samples/s' out
  [ "$(digest_of out)" = "$wanted" ]
  "$HEDDLE" train --resume r --json >out
  [ "$(json_get samples_per_s <out)" = null ]
}

@test "more ranks than CPUs: the remedy is fewer ranks, not fewer threads" {
  [ "$(nproc)" -le 64 ] || skip "there are more than 64 CPUs"
  many=$(($(nproc) + 1))
  "$HEDDLE" train $TINY --procs "$many" --threads 1 >out 2>err
  grep -Eq "^heddle: warning: $many threads share [0-9]+ CPUs?, which is slower; use --procs $(nproc)( or fewer)?$" err
  "$HEDDLE" train $TINY --procs "$many" --threads 2 >out 2>err
  grep -q "which is slower; use --procs $(nproc) --threads 1$" err
}

@test "a built-in model that needs its recipe's transforms names the recipe" {
  fails 1 train $TINY --model mnist-99
  says "expected the input 1x28x28" "mnist-99, which takes 1x24x24" "use --recipe mnist-99"
  fails 1 train $TINY --model cifar-94 # grey images become no colours
  no says "--recipe"
  fails 1 train $TINY --model mnist-99 --transforms '[centre_crop: 20, to_float]'
  no says "--recipe"
}

@test "mistakes are drawn of pictures in colours, of one size or of several" {
  "$BUILDDIR/tests/bits/make_data" pictures photos 40 20
  for data in photos random:3x8x8; do
    printf 'model: m\ninput: [3, 8, 8]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 10}\n' >net.yaml
    "$HEDDLE" train --model ./net.yaml --data $data --transforms '[{resize: 8}, to_float, normalise]' --max-steps 2 \
      --out "r-${data%%:*}" >out
    grep -q '^what it got wrong: r-.*/wrong.png$' out
    [ "$(head -c 8 "r-${data%%:*}/wrong.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]
  done
}

@test "a resumed run: the steps and seconds of each part, their sum in runs, and what did nothing leaves it alone" {
  train --out r --max-steps 20
  [ "$(json_get train_s <out)" != 0 ]
  "$HEDDLE" train --resume r --max-steps 50 >out
  grep -Eq '^trained  *30 of 50 steps in ' out
  # sum_of KEY: of the ends in the history.
  sum_of() {
    grep '"type":"end"' r/history.jsonl | while read -r line; do printf '%s\n' "$line" | json_get "$1"; done |
      awk '{ sum += $1 } END { printf "%.6f\n", sum }'
  }
  listed() { "$HEDDLE" runs r --columns "$1" --csv | tail -n 1; }
  [ "$(listed train_s | awk '{ printf "%.6f\n", $1 }')" = "$(sum_of train_s)" ]
  [ "$(listed wall_s | awk '{ printf "%.6f\n", $1 }')" = "$(sum_of wall_s)" ]
  awk -v speed="$(listed samples_per_s)" -v s="$(listed train_s)" \
    'BEGIN { d = speed * s / (50 * 64); exit !(d > 0.999 && d < 1.001) }'
  "$HEDDLE" runs r --columns train_s,wall_s,samples_per_s,time,test_accuracy --csv >before
  cp r/history.jsonl history
  "$HEDDLE" train --resume r >out
  "$HEDDLE" runs r --columns train_s,wall_s,samples_per_s,time,test_accuracy --csv >after
  cmp before after
  cmp history r/history.jsonl
  # A part that was killed: how long its steps took is not known.
  sed -i 2d r/history.jsonl
  [ -z "$(listed train_s)" ]
}

@test "the memory that is reported is that of heddle, not of the program that starts it" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 -c '
import subprocess, sys
much = bytearray(400 << 20)
for i in range(0, len(much), 4096):
    much[i] = 1
sys.exit(subprocess.call(sys.argv[1:], stdout=open("out", "w")))' "$HEDDLE" train $TINY --threads 1 --out r --json
  [ "$(json_get peak_rss_bytes <out)" -lt $((300 << 20)) ]
  [ "$(json_get peak_rss_bytes <out)" -gt $((5 << 20)) ]
}

@test "onecycle says where it leaves a momentum of 0, which PyTorch cycles" {
  "$HEDDLE" train $TINY --optimizer sgd --schedule onecycle --epochs 1 --out r >out
  grep -q 'onecycle leaves a momentum of 0 unchanged.*--momentum 0.95' out
  "$HEDDLE" train $TINY --optimizer sgd --momentum 0.9 --schedule onecycle --epochs 1 --out s >out
  no grep -q 'leaves a momentum' out
  "$HEDDLE" train $TINY --optimizer adam --schedule onecycle --epochs 1 --out t >out
  no grep -q 'leaves a momentum' out
}

@test "a batch norm over one number a channel is said: batches of one sample, and a last batch of one" {
  printf 'model: m\ninput: [1, 1, 2]\nlayers:\n  - f: {op: flatten}\n  - n: {op: batch_norm}\n' >m.yaml
  printf '  - l: {op: linear, out: 2}\n' >>m.yaml
  echo label,a,b | tee train.csv >test.csv
  for i in $(seq 9); do echo "$((i % 2)),$i,$((i * i % 7))" | tee -a test.csv >>train.csv; done
  local how="--model m.yaml --data . --max-steps 3"
  "$HEDDLE" train $how --batch 1 >out
  grep -qx "batch_norm 'n' sees one number per channel in each batch, which becomes 0 whatever its value; give a "\
"larger --batch" out
  "$HEDDLE" train $how --batch 8 >out
  [ "$(grep -c "^batch_norm 'n' sees one number per channel in the last batch of an epoch, .* --drop-last" out)" -eq 1 ]
  for option in "--batch 8 --drop-last" "--batch 9" "--batch 4 --shards 2 --drop-last"; do
    "$HEDDLE" train $how $option >out
    no grep '^batch_norm' out
  done
  sed -i 's/batch_norm/batch_norm, stats: shard/' m.yaml
  "$HEDDLE" train $how --batch 8 --shards 8 --drop-last >out
  grep -q "^batch_norm 'n' sees one number per channel in each batch" out
}

# Each number with a point or an exponent is no longer than Python's, which is the shortest that reads back equal.
@test "numbers of JSON are the shortest that read back equal, in every file and line" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  "$HEDDLE" train $TINY --val-split 0.3 --log-every 1 --out x --json | tail -n 1 >train.json
  "$HEDDLE" certify x >/dev/null
  "$HEDDLE" eval x --json | tail -n 1 >eval.json
  "$HEDDLE" sweep lr=0.1,0.01 seed=0,1 $TINY --out s --json 2>/dev/null | tail -n 1 >sweep.json
  "$HEDDLE" runs s --json >runs.json
  cat >look.py <<'END'
import re, sys
seen = 0
for path in sys.argv[1:]:
    for number in re.findall(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
        re.sub(r'"(\\.|[^"])*"', "", open(path).read())):
        seen += "." in number
        if re.search("[.eE]", number) and len(number) > len(repr(float(number)).replace("e-0", "e-").replace("+", "")):
            sys.exit(f"{path}: {number}, the shortest is {float(number)!r}")
print(seen)
END
  python3 look.py x/run.json x/metrics.jsonl x/history.jsonl x/certificate.json x/step-*/run.json s/*/run.json \
    s/sweep.json train.json eval.json sweep.json runs.json >out || { cat out; false; }
  [ "$(cat out)" -gt 100 ]
}

@test "each instruction set that this CPU has runs, and the best of them by default" {
  has() { local flag; for flag; do grep -qw "$flag" /proc/cpuinfo || return 1; done; }
  local sets= isa
  if has avx2 fma; then sets=avx2; fi
  if has avx2 fma avx512f avx512bw avx512dq avx512vl; then sets="avx2 avx512"; fi
  [ -n "$sets" ] || skip "neither AVX2 nor AVX-512 here"
  unset HEDDLE_ISA
  for isa in $sets; do
    HEDDLE_ISA=$isa train --max-steps 1
    [ "$(json_get isa <out)" = "$isa" ]
  done
  train --max-steps 1
  [ "$(json_get isa <out)" = "$isa" ]
}
