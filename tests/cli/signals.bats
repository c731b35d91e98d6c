# Runs that are interrupted, killed, or find the disk full: what was saved is whole, and a resumed run ends in the
# digest of an undisturbed one.

load cli
WHERE=/tmp # on the disk

# same_as_undisturbed FOLDER: goes on for 25 steps beyond the saved ones, and compares digest and metrics with a run
# that nothing disturbed.
same_as_undisturbed() {
  local step
  step=$(readlink "$1/last")
  step=$((${step#step-} + 25))
  "$HEDDLE" train --resume "$1" --max-steps $step >out
  nothing_half_written "$1"
  "$HEDDLE" train $ENDLESS --max-steps $step --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
  [ "$("$HEDDLE" digest "$1")" = "$(digest_of wanted)" ]
  [ "$(grep '"loss"' "$1/metrics.jsonl" | cut -d , -f 1-4)" = "$(grep '"loss"' undisturbed/metrics.jsonl |
    cut -d , -f 1-4)" ]
  cmp "$1/losses.bin" undisturbed/losses.bin
}

# stops_and_resumes SIGNAL CODE
stops_and_resumes() {
  start $ENDLESS --out r
  await_line 'step 40:'
  kill -"$1" "$CHILD"
  finish
  [ "$code" -eq "$2" ]
  [ "$(wc -l <err)" -eq 1 ]
  message=$(cat err)
  step=$(readlink r/last)
  says "heddle: stopped after step ${step#step-}, saved in r" "heddle train --resume r"
  [ "${step#step-}" -ge 40 ]
  # Beside it are only those of epochs' ends, which a busy machine may reach before the signal does.
  for other in r/step-*; do
    [ "${other#r/}" = "$step" ] || [ $((${other#r/step-} % 1024)) -eq 0 ]
  done
  nothing_half_written
  same_as_undisturbed r
}

@test "SIGINT: saved, 130, and resumed to the same digest" {
  stops_and_resumes INT 130
}

@test "SIGTERM: saved, 143, and resumed to the same digest" {
  stops_and_resumes TERM 143
}

@test "SIGHUP: saved, 129, and resumed to the same digest" {
  [ $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/$$/status) & 1)) -eq 0 ] ||
    skip "SIGHUP is ignored here, as under nohup"
  stops_and_resumes HUP 129
}

@test "SIGHUP that is ignored stays ignored" {
  trap '' HUP
  start $ENDLESS --out r
  trap - HUP
  await_line 'step 40:'
  kill -HUP "$CHILD"
  await_line 'step [0-9]*:'
  await_line 'step [0-9]*:'
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
}

@test "a run that was stopped and resumed can be stopped again" {
  start $ENDLESS --out r
  await_line 'step 40:'
  kill -INT "$CHILD"
  finish
  was=$(readlink r/last)
  start --resume r
  await_line 'step [0-9]*:'
  kill -INT "$CHILD"
  finish
  [ "$code" -eq 130 ]
  now=$(readlink r/last)
  [ "${now#step-}" -gt "${was#step-}" ]
  same_as_undisturbed r
}

@test "SIGKILL, five times: the last checkpoint is whole, and resumed to the same digest" {
  start $ENDLESS --out r --save-every 20
  for kill in 1 2 3 4 5; do
    await_line 'step [0-9]*0:'
    await_line 'step [0-9]*0:'
    await_line 'step [0-9]*0:' # a save waits for the one before: the first is whole by now
    kill -KILL "$CHILD"
    finish
    [ "$code" -eq 137 ]
    "$HEDDLE" digest r >/dev/null
    [ "$kill" -eq 5 ] || start --resume r
  done
  same_as_undisturbed r
}

@test "metrics can be followed while the run goes on" {
  start $ENDLESS --out r
  await_line 'step 60:'
  [ "$(wc -l <r/metrics.jsonl)" -ge 3 ]
  grep -q '"model": "simplenet"' r/run.json
  kill -INT "$CHILD"
  finish
}

@test "two processes never write one run" {
  start $ENDLESS --out r --save-every 20
  await_line 'step 60:'
  fails 1 train --resume r
  says "r: " "another heddle"
  grep -q "^waiting up to 3 s for process $CHILD on .*, which still writes to .*r$" out
  fails 1 train $TINY --resume r/last --out ./r/
  says "another heddle"
  kill -INT "$CHILD"
  finish
  [ "$code" -eq 130 ]
  same_as_undisturbed r
}

@test "a limit on the size of files stops the run; the last checkpoint survives" {
  train --out r
  (ulimit -f 40 && fails 1 train --resume r --max-steps 60) # of 63 KB that the state takes
  [ "$(readlink r/last)" = step-50 ]
  [ "$(cd r && echo step-*)" = step-50 ]
  nothing_half_written
  [ "$("$HEDDLE" digest r)" = "$DIGEST" ]
}

@test "a full disk stops the run; the last checkpoint survives, and is resumed once there is room" {
  mkdir disk
  mount -t tmpfs -o size=512k tmpfs disk 2>/dev/null || skip "no right to mount a small disk"
  MOUNTED=$PWD/disk
  fails 1 train $ENDLESS --out disk/r --save-every 20 --keep 100
  says disk/r "No space left" "free some space"
  nothing_half_written
  "$HEDDLE" digest disk/r >/dev/null
  [ "$(cd disk/r && ls -d step-* | wc -l)" -ge 2 ]
  mount -o remount,size=8m disk
  same_as_undisturbed disk/r
}

# cut_short ARGS...: a run reads training images from a file, which becomes empty.
cut_short() {
  mkdir data
  "$BUILDDIR/tests/bits/make_idx" data 640 64
  start --model simplenet --data data --epochs 1000000 --log-every 1 --out r "$@"
  await_line 'step 3:'
  : >data/train-images-idx3-ubyte
  finish
}

@test "a data file that is cut short while it is read ends the run by SIGBUS, and is named" {
  cut_short --threads 2
  [ "$code" -eq 135 ] || { echo "$code"; cat err; false; }
  message=$(errors err)
  [ "$(wc -l <<<"$message")" -eq 1 ]
  says "heddle: $FOLDER/data/train-images-idx3-ubyte: expected a file that does not change" "found it truncated"
}

@test "a loader worker reports it too" {
  cut_short --threads 1 --workers 2
  [ "$code" -eq 135 ] || { echo "$code"; cat err; false; }
  grep -q "^heddle: $FOLDER/data/train-images-idx3-ubyte: expected" err
}

@test "where a rank ends so, its step is saved" {
  cut_short --threads 1 --procs 2
  [ "$code" -eq 135 ] || { echo "$code"; cat err; false; }
  grep -q "^heddle: $FOLDER/data/train-images-idx3-ubyte: expected" err
  grep -q '^heddle: rank [01] (pid .*) was killed by signal 7 (Bus error) after step ' err
  grep -q "^heddle: saved $(readlink r/last | tr - ' ') in " err
}

@test "a bus error sent by another process names no file" {
  start $ENDLESS --out r
  await_line 'step 40:'
  kill -BUS "$CHILD"
  finish
  [ "$code" -eq 135 ]
  [ ! -s err ]
}
