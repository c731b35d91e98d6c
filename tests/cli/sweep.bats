# heddle sweep: grids, seeds, draws and successive halving, in a folder that several processes share; the table is the
# same whatever happened on the way.

load cli

QUICK="--model simplenet --data $FEW"
SMALL="$QUICK --max-steps 20 --threads 1"

# sweep ARGS...: a sweep; what it prints in `out`, JSON last, and the digest of its table in TABLE.
sweep() {
  timeout "$LIMIT_S" "$HEDDLE" sweep "$@" --json >out 2>err || { cat out err; return 1; }
  TABLE=$(sed -n 's/^table_sha256 *//p' out)
}

# column NAME FILE: the values of a column of a table without quoted commas, in one line.
column() {
  awk -F , -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$2" | xargs
}

@test "a grid: runs in the order of keys, an ordinary run each, one table and its digest" {
  sweep lr=0.1,0.001 optimizer=sgd,adam --out s $SMALL
  results=train_loss,val_loss,val_accuracy,test_loss,test_accuracy
  [ "$(head -n 1 s/table.csv)" = "run,lr,optimizer,state,steps,$results,weights_sha256,reason" ]
  [ "$(column lr s/table.csv)" = "0.1 0.1 0.001 0.001" ]
  [ "$(column optimizer s/table.csv)" = "sgd adam sgd adam" ]
  [ "$(column state s/table.csv)" = "done done done done" ]
  [ "$(column steps s/table.csv)" = "20 20 20 20" ]
  [ "$(sha256sum <s/table.csv)" = "$TABLE  -" ]
  [ "$(json_get table_sha256 runs metric <out)" = "$TABLE 4 test_accuracy" ]
  "$HEDDLE" train $SMALL --lr 0.001 --optimizer sgd --out r >alone
  [ "$(column weights_sha256 s/table.csv | cut -d ' ' -f 3)" = "$(digest_of alone)" ]
  "$HEDDLE" certify s/run-0003 >/dev/null
  "$HEDDLE" verify s/run-0003 >/dev/null
  [ "$("$HEDDLE" runs s --where lr=0.001 --columns optimizer --csv | xargs)" = "optimizer sgd adam" ]
  grep -q '<a href="run-0004/">' s/sweep.html
  nothing_half_written
  # Again, without arguments: nothing is trained, and the table is the same. With another --lr it is another sweep.
  cp s/table.csv first.csv
  rm s/table.csv
  sweep --out s
  cmp s/table.csv first.csv
  [ "$(cat s/run-*/history.jsonl | wc -l)" -eq 8 ]
  fails 2 sweep lr=0.1,0.002 optimizer=sgd,adam --out s $SMALL
  says "vary" "0.001" "0.002"
  fails 2 sweep --out s --batch 32
  says "batch" "32"
  cmp s/table.csv first.csv
}

@test "seeds: mean, deviation and the interval of Student's t" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  sweep lr=0.01,0.0001 seed=0..4 --out s $SMALL
  python3 - <<'PYTHON'
import csv, statistics
rows = list(csv.DictReader(open("s/table.csv")))
assert [r["seed"] for r in rows] == list("01234" * 2)
found = list(csv.DictReader(open("s/summary.csv")))
assert len(found) == 2 and float(found[0]["mean"]) > float(found[1]["mean"]), found
for group in found:
    values = [float(r["test_accuracy"]) for r in rows if r["lr"] == group["lr"]]
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    margin = 2.7764451052 * deviation / 5 ** 0.5  # t of 4 degrees of freedom
    assert group["n"] == "5" and group["metric"] == "test_accuracy"
    for name, value in ("mean", mean), ("deviation", deviation), ("low", mean - margin), ("high", mean + margin):
        assert abs(float(group[name]) - value) < 2e-5 * abs(value), (name, group[name], value)
PYTHON
  grep -Eq '^lr 0.01 +5 ' out
}

@test "--folds: each run once for every part of the training set, and their mean" {
  for i in $(seq 1 60); do echo "$((i * 37 % 11)).$i,$((i * 53 % 17)),$((i % 3))"; done >rows.csv
  cat >rows.yaml <<EOF
model: rows
input: [1, 1, 2]
layers: [{flat: {op: flatten}}, {out: {op: linear, out: 3}}]
EOF
  rows="--model rows.yaml --data rows.csv --batch 8 --epochs 2 --threads 1"
  sweep --folds 4 lr=0.1,0.01 --out s $rows
  [ "$(column fold s/table.csv)" = "1/4 2/4 3/4 4/4 1/4 2/4 3/4 4/4" ]
  [ "$(column n s/summary.csv)" = "4 4" ]
  grep -q '<h2>Averages over folds</h2>' s/sweep.html
  [ "$(awk -F , 'NR > 1 && $2 == 0.1 { s += $10 / 4 } END { printf "%.4g", s }' s/table.csv)" = \
    "$(awk -F , 'NR > 1 && $1 == 0.1 { printf "%.4g", $4 }' s/summary.csv)" ]
  "$HEDDLE" train $rows --lr 0.1 --fold 2/4 --out alone >out
  [ "$(column weights_sha256 s/table.csv | cut -d ' ' -f 2)" = "$(digest_of out)" ]
  # The fold is evaluated, of the same rows under any name, and of other data all samples.
  cp rows.csv copy.csv
  head -n 40 rows.csv >others.csv
  for data in "" "--data rows.csv" "--data copy.csv" "--data others.csv"; do
    "$HEDDLE" eval alone $data --json >out
    tested=$(json_get confusion <out | tr -cs 0-9 ' ' | awk '{ for (i = 1; i <= NF; i++) n += $i } END { print n }')
    [ "$tested" = "$([ "$data" = "--data others.csv" ] && echo 40 || echo 15)" ] || { cat out; false; }
    [ "$data" = "--data others.csv" ] ||
      [ "$(json_get accuracy <out)" = "$(awk -F , 'NR == 3 { print $10 }' s/table.csv)" ]
  done
  "$HEDDLE" train --resume alone --epochs 3 >/dev/null
  "$HEDDLE" certify alone >/dev/null
  "$HEDDLE" verify alone >/dev/null
  cp s/table.csv first.csv
  sweep --out s
  cmp s/table.csv first.csv
  sweep --folds 4 --out s
  cmp s/table.csv first.csv
  fails 2 sweep --folds 5 --out s
  says "--folds 5 expects a sweep of that many folds, found 4"
  fails 2 sweep --folds 4 fold=1/2 --out t $rows
  fails 2 train $rows --fold 5/4 --out t
  says "--fold expects" "found '5/4'"
  fails 3 train $rows --fold 1/61 --out t || fails 1 train $rows --fold 1/61 --out t
  says "rows.csv" "--fold 1/61" "found 61 folds and 60 samples"
  [ ! -e t ]
}

@test "random draws are the same everywhere, inside their bounds, and others with another seed" {
  sweep 'lr=log(1e-4,1e-1)' 'momentum=uniform(0,0.9)' --draws 4 --optimizer sgd --out s $SMALL
  awk -F , 'NR > 1 && ($2 < 1e-4 || $2 > 0.1 || $3 < 0 || $3 > 0.9 || seen[$2]++) { bad = 1 }
    END { exit bad || NR != 5 }' s/table.csv
  sweep 'lr=log(1e-4,1e-1)' 'momentum=uniform(0,0.9)' --draws 4 --optimizer sgd --out t $SMALL --jobs 1
  cmp s/table.csv t/table.csv
  sweep 'lr=log(1e-4,1e-1)' 'momentum=uniform(0,0.9)' --draws 4 --optimizer sgd --seed 1 --out u $SMALL
  [ "$(column lr u/table.csv)" != "$(column lr s/table.csv)" ]
  # The numbers of Philox for these arguments are constants.
  [ "$(column lr s/table.csv)" = "0.00551092 0.000743212 0.0053056 0.0236345" ]
}

@test "a YAML file says the same as words" {
  sweep lr=0.1,0.01 seed=0..1 --out s $SMALL
  printf 'model: simplenet\ndata: %s\nmax_steps: 20\nvary:\n  lr: [0.1, 0.01]\n  seed: 0..1\n' "$FEW" >sweep.yaml
  sweep sweep.yaml --out t
  cmp s/table.csv t/table.csv
  sweep s/sweep.json --out u
  cmp s/table.csv u/table.csv
}

@test "--halving: the best of each round go on, to the weights of an undisturbed run" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  local options="$QUICK --max-steps 40 --schedule cosine --epochs 1"
  sweep lr=0.3,0.1,0.03,0.01 seed=1,0 --halving 2 --rank-by test_loss --out s $options
  [ "$(column state s/table.csv | tr ' ' '\n' | sort | uniq -c | xargs)" = "1 done 7 dropped" ]
  python3 - <<'PYTHON'
import csv, glob, json
rows = list(csv.DictReader(open("s/table.csv")))
inside = list(range(8))
for number, steps in enumerate((5, 10, 20), 1):
    loss = {}
    for run in inside:
        for line in open("s/run-%04d/history.jsonl" % (run + 1)):
            entry = json.loads(line)
            if entry["type"] == "end" and entry["step"] == steps:
                loss[run] = entry["test_loss"]
    assert sorted(loss) == inside, (number, loss)
    chosen = [run - 1 for run in json.load(open("s/round-%d.json" % number))]
    assert chosen == sorted(inside, key=lambda run: (loss[run], run))[:len(inside) // 2]
    for run in set(inside) - set(chosen):
        assert rows[run]["steps"] == str(steps)
    inside = sorted(chosen)
best = rows[inside[0]]
print(best["run"], best["lr"], best["seed"], best["weights_sha256"], file=open("best", "w"))
PYTHON
  read -r run lr seed digest <best
  grep -Eq "^lr $lr, seed $seed +1 " out # the run that went on to the end
  "$HEDDLE" train $options --threads 1 --lr "$lr" --seed "$seed" --out alone >out
  [ "$(digest_of out)" = "$digest" ]
  sweep lr=0.3,0.1,0.03,0.01 seed=1,0 --halving 2 --rank-by test_loss --out t $options --jobs 1
  cmp s/table.csv t/table.csv
}

@test "--halving: a drawn number of epochs is that of its run" {
  sweep 'epochs=uniform(0.1,2)' --draws 4 --halving 2 --out s $QUICK --threads 1
  awk -F , 'NR > 1 && $3 == "done" { n++; wanted = int($2 * 60 + 0.999999); if ($4 != wanted) exit 1 }
    END { exit n != 1 }' s/table.csv || { cat s/table.csv; false; }
  [ "$(column steps s/table.csv | tr ' ' '\n' | sort -u | wc -l)" -eq 4 ]
}

@test "runs that choose transforms for a network's input are those of the sweep" {
  printf 'model: m\ninput: [1, 14, 14]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >m.yaml
  "$HEDDLE" train --model m.yaml --data "$FEW" --transforms '[{resize: [14, 14]}, to_float, normalise]' --max-steps 2 \
    --out r >out
  for _ in 1 2; do
    sweep lr=0.1,0.01 --model m.yaml --init r/last/model.safetensors --head auto --data "$FEW" --max-steps 2 --out s
    [ "$(column state s/table.csv)" = "done done" ]
  done
}

@test "as many jobs as CPUs, and as the memory holds" {
  [ "$(nproc)" -gt 1 ] || skip "expected two CPUs, found one"
  mkdir -p root/sys/fs/cgroup root/proc/self
  echo 0::/ >root/proc/self/cgroup
  "$HEDDLE" sweep seed=0,1 --out a $SMALL --max-steps 1 >out
  grep -q '^sweep: 2 runs in a, 2 jobs$' out
  echo 1000000 >root/sys/fs/cgroup/memory.max
  HEDDLE_SYSROOT=$PWD/root "$HEDDLE" sweep seed=0,1 --out b $SMALL --max-steps 1 >out
  grep -q '^sweep: 2 runs in b, 1 job$' out
}

@test "the table does not depend on jobs, processes or kills" {
  local vary="lr=0.1,0.01 batch=32,64 seed=0..3" options="$QUICK --max-steps 50 --save-every 10"
  sweep $vary $options --jobs 1 --out a
  [ "$(wc -l <a/table.csv)" -eq 17 ]
  sweep $vary $options --jobs 2 --out b
  cmp a/table.csv b/table.csv
  "$HEDDLE" sweep $vary $options --jobs 1 --out c >first 2>first.err &
  CHILD=$!
  "$HEDDLE" sweep $vary $options --jobs 1 --out c >second 2>second.err || { cat second.err; false; }
  wait $CHILD || { cat first.err; false; }
  CHILD=
  cmp a/table.csv c/table.csv
  [ "$(cat first second | grep -c '^run-.*done')" -eq 16 ] # no run was trained twice
  [ "$(cat c/run-*/history.jsonl | wc -l)" -eq 32 ]
  # Killed three times, after some runs of its own each time, and then left alone.
  for runs in $((1 + RANDOM % 3)) $((1 + RANDOM % 3)) $((1 + RANDOM % 3)); do
    rm -f pipe
    mkfifo pipe
    "$HEDDLE" sweep $vary $options --jobs 2 --out d >pipe 2>err 3>&- &
    CHILD=$!
    exec 9<pipe
    for ((i = 0; i < runs; i++)); do
      await_line '^run-.*done'
    done
    kill -KILL "$CHILD"
    finish
    [ "$code" -eq 137 ]
    no test -e d/table.csv
  done
  sweep --out d
  cmp a/table.csv d/table.csv
  nothing_half_written d
}

@test "SIGTERM saves the runs, and the sweep goes on from there" {
  local options="$QUICK --max-steps 2000 --epochs 40 --save-every 20"
  rm -f pipe
  mkfifo pipe
  "$HEDDLE" sweep seed=0..3 $options --jobs 2 --out s >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  await_line '^run-.*done'
  until compgen -G "s/run-0003/step-*" >compgen; do kill -0 "$CHILD"; done # the third run is under way
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
  message=$(cat err)
  says "stopped after" "heddle sweep --out s"
  grep -q '"end":"stopped"' s/run-*/history.jsonl
  no test -e s/table.csv
  sweep --out s
  sweep seed=0..3 $options --out t
  cmp s/table.csv t/table.csv
}

@test "a run that fails is a row with its reason, and the sweep goes on" {
  local code=0
  "$HEDDLE" sweep lr=0.01,1e6,0.02 --optimizer sgd $SMALL --model mlp --max-steps 30 --out s >out 2>err || code=$?
  [ "$code" -eq 1 ]
  [ "$(column state s/table.csv)" = "done failed done" ]
  grep -q '^2,1e6,failed,[0-9]*,,,,,,,"step [0-9]*: expected finite numbers, found [^;]*"$' s/table.csv
  message=$(cat err)
  says "1 of 3 runs failed" "s/table.csv"
  grep -q '^table_sha256 ' out
  # A failed run is not tried again.
  fails 1 sweep --out s
  [ "$(wc -l <s/run-0002/history.jsonl)" -eq 2 ]
}

@test "ranks that mpirun starts share the runs, and rank 0 alone prints" {
  . "$SRCDIR/tests/mpi_lib.sh"
  mpi_missing
  [ -z "$MISSING" ] || skip "$MISSING"
  sweep lr=0.1,0.01 seed=0..2 $SMALL --out a
  $MPIRUN -n 2 "$HEDDLE" sweep lr=0.1,0.01 seed=0..2 $SMALL --jobs 1 --json --out b >out
  cmp a/table.csv b/table.csv
  [ "$(grep -c '^table_sha256 ' out)" -eq 1 ]
}

@test "runs whose answers are right or wrong are ranked by their accuracy: sums, classes of pixels" {
  sweep lr=0.1,0.01 --out s --model sums --data sums --max-steps 2 --batch 8
  [ "$(json_get metric <out)" = test_accuracy ]
  fails 2 sweep lr=0.1,0.01 --out t --model regression --data "$FEW" --loss mse --max-steps 2 --rank-by test_accuracy
  says "predicts numbers"
}

@test "bad input is refused before anything is written" {
  for wrong in "lr=" "lr=0.1,,0.2" "lr=0.1,x" "lr=-1" "lr=0.1 lr=0.2" "lr=0.1 --lr 0.2" "seed=3..1" "seed=0..x" \
    "seed=0..99999 lr=0.1,0.2" "lr=log(0,1) --draws 2" "lr=log(1e-4,1e-1)" "lr=uniform(1) --draws 2" \
    "batch=log(8,64) --draws 2" "lr=0.1 --draws 2" "lr=0.1 --halving 1" "lr=0.1 --rank-by speed" \
    "lr=0.1 --rank-by val_loss" "lr=0.1 --resume r" "lr=0.1 --procs 2" "lr=0.1 --profile p" "out=a,b" "threads=1,2" \
    "json=true" "model=cnn,none" "momentum=0.9" \
    "seed=3,0,3" "seed=1,0..2" "lr=0.1,1e-1" "optimizer=sgd,sgd" \
    "lr=0.1 --patience 3 --halving 2" "missing.yaml" "" "lr=0.1 --jobs 0"; do
    fails 2 sweep $wrong --out s --max-steps 5
    [ ! -e s ] || { echo "sweep $wrong: expected no folder"; false; }
  done
  fails 2 sweep lrr=0.1,0.2 --out s
  says "lrr" "did you mean 'lr'?"
  fails 2 sweep batch=32 momentum=0.9,0.5 --optimizer adam --out s
  says "run-0001 (batch 32, momentum 0.9)" "--optimizer sgd"
  fails 2 sweep lr=0.1
  says "--out"
  printf 'vary: {lrr: [0.1]}\n' >wrong.yaml
  fails 2 sweep wrong.yaml --out s
  says "wrong.yaml:1" "did you mean 'lr'?"
  printf 'vary: {lr: []}\n' >wrong.yaml
  fails 2 sweep wrong.yaml --out s
  [ ! -e s ]
}

# refuses_runs TEXT...: the sweep in s is refused with these words, and nothing is trained.
refuses_runs() {
  local before
  before=$(cat s/run-*/history.jsonl | wc -l)
  fails 2 sweep --out s --json ${ARGS:-}
  says "$@"
  [ "$(cat s/run-*/history.jsonl | wc -l)" -eq "$before" ]
}

@test "a continued sweep has runs of one network, one data set and one list of settings" {
  printf 'model: mine\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >mine.yaml
  sed 's/- fc/- one: {op: linear, out: 8}\n  - fc/' mine.yaml >deeper.yaml
  cp mine.yaml kept.yaml
  local options="--model mine.yaml --data random:1x28x28 --max-steps 10 --threads 1"
  sweep seed=0..2 $options --out s
  grep -q '"model_yaml"' s/sweep.json
  cp s/table.csv table.csv
  # The model's file is changed between: the sweep is refused, with sweep.json and without, in whole and in part.
  rm -r s/run-0003
  cp deeper.yaml mine.yaml
  refuses_runs "mine.yaml" "restore the file"
  ARGS="seed=0..2 $options" refuses_runs "mine.yaml"
  fails 2 sweep s/sweep.json --out t
  says "mine.yaml"
  [ ! -e t ]
  cp s/sweep.json sweep.json
  rm s/sweep.json
  ARGS="seed=0..2 $options" refuses_runs "run-0001 (seed 0)" "a different description"
  [ ! -e s/sweep.json ]
  cp kept.yaml mine.yaml
  # Other settings and other data, without sweep.json.
  ARGS="seed=0..2 $options --lr 0.5" refuses_runs "run-0001" "lr 0.5" "0.001"
  ARGS="seed=0..2 $options --max-steps 11" refuses_runs "max-steps 11" "10"
  ARGS="seed=1..3 $options" refuses_runs "seed 1" "found one with 0"
  ARGS="seed=0..2 $options --data digits" refuses_runs "other data"
  # As it was, it goes on, also without sweep.json, and with one of an earlier version, which kept no models.
  sweep seed=0..2 $options --out s
  cmp s/table.csv table.csv
  tr '\n' ' ' <s/sweep.json | sed -E 's/, *"model_yaml": *\{ *"mine.yaml": *"([^"\\]|\\.)*" *\}//' >older.json
  no grep -q model_yaml older.json
  cp older.json s/sweep.json
  rm -r s/run-0002
  sweep --out s
  cmp s/table.csv table.csv
}

@test "a continued sweep has runs from the same first weights" {
  for seed in 1 2; do "$HEDDLE" train $TINY --threads 1 --seed $seed --max-steps 2 --out from-$seed >out; done
  cp from-1/last/model.safetensors first.safetensors
  local options="$SMALL --max-steps 10 --init first.safetensors"
  sweep seed=0..2 $options --out s
  cp s/table.csv table.csv
  rm -r s/run-0003
  cp from-2/last/model.safetensors first.safetensors
  refuses_runs "first.safetensors: expected the weights that this sweep began with, found others; restore the file"
  ARGS="seed=0..2 $options" refuses_runs "first.safetensors"
  fails 2 sweep s/sweep.json --out t
  says "first.safetensors"
  cp from-1/last/model.safetensors first.safetensors
  sweep --out s
  cmp s/table.csv table.csv
}

@test "a model file that is changed while a sweep runs changes none of its runs" {
  printf 'model: mine\ninput: [1, 28, 28]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >mine.yaml
  local options="--model mine.yaml --data random:1x28x28 --max-steps 300 --threads 1 --jobs 1"
  sweep seed=0..3 $options --out t
  rm -f pipe
  mkfifo pipe
  "$HEDDLE" sweep seed=0..3 $options --out s >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  await_line '^run-0001.*done'
  sed -i 's/- fc/- one: {op: linear, out: 8}\n  - fc/' mine.yaml
  finish
  [ "$code" -eq 0 ]
  cmp s/table.csv t/table.csv
}

@test "a sweep says for which process it waits, and goes on when that has ended its run" {
  local options="$QUICK --max-steps 20000 --epochs 1000 --threads 1"
  "$HEDDLE" sweep seed=0 $options --out s >first 2>first.err &
  local other=$!
  until [ -e s/run-0001/history.jsonl ]; do kill -0 "$other"; done
  kill -STOP "$other"
  rm -f pipe
  mkfifo pipe
  "$HEDDLE" sweep seed=0 $options --out s >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  await_line '^run-0001: *waiting for process '"$other"' on '
  kill -CONT "$other"
  finish
  wait "$other" || { cat first.err; false; }
  [ "$code" -eq 0 ]
  [ "$(wc -l <s/run-0001/history.jsonl)" -eq 2 ]
}

@test "a sweep ends where a program that is no heddle has locked a run" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  mkdir -p s/run-0002
  # The line of a process that was killed.
  echo "$(uname -n) $(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid) 4194304 1" >s/run-0002/.lock
  python3 -c '
import fcntl, time
file = open("s/run-0002/.lock")
fcntl.lockf(file, fcntl.LOCK_SH)
open("locked", "w")
time.sleep(600)' 3>&- &
  CHILD=$!
  until [ -e locked ]; do kill -0 "$CHILD"; done
  fails 1 sweep seed=0,1 $SMALL --out s
  says "run-0002 (seed 1)" "run-0002/.lock is locked by process $CHILD" "heddle sweep --out s"
  fails 1 train $SMALL --out s/run-0002
  says "locked by process $CHILD"
  kill "$CHILD"
  wait "$CHILD" || true
  CHILD=
  sweep --out s
  [ "$(column state s/table.csv)" = "done done" ]
}

@test "a linear axis of the page has round numbers" {
  "$HEDDLE" sweep lr=0.001,0.01,0.1 seed=10000,10001 $SMALL --out s >/dev/null 2>&1
  for value in 0.001 0.01 0.1 10000 10001; do # as they were given
    grep -q "class=\"end\">$value</text>" s/sweep.html
  done
  grep -q '<h2>Averages over seeds</h2>' s/sweep.html
  # What is right of the last axis: its numbers, at even and round steps.
  grep -oE '<text [^>]*class="">[0-9.]+</text>' s/sweep.html | sed 's/.*>\([0-9.]*\)<.*/\1/' >ticks
  [ "$(wc -l <ticks)" -ge 2 ]
  awk 'NR > 1 { step = $1 - last; if (NR > 2 && (step - before > 1e-9 || before - step > 1e-9)) exit 1;
      before = step } { last = $1 }' ticks
  awk 'NR == 2 { s = $1 - first; while (s < 0.999999) s *= 10; exit !(s < 1.000001 || (s > 1.99 && s < 2.01) ||
      (s > 4.99 && s < 5.01)) } { first = $1 }' ticks
}
