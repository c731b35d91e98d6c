# Several ranks of one run: messages when one of them is lost, what is saved, what is left behind; and what is
# refused.

load cli
load ranks

@test "ranks share each step: their number is printed, and the digest is that of one" {
  train --threads 1 --out one
  was=$DIGEST
  train --threads 1 --procs 3 --out three
  [ "$DIGEST" = "$was" ]
  [ "$(json_get ranks threads <out)" = "3 1" ]
  [ "$(grep -Ec '^rank [012] pid [0-9]+ cpus ([0-9]+|any)$' out)" -eq 3 ]
  [ "$(head -n 3 out | grep -c '^rank')" -eq 3 ]
  [ "$(grep -c '^heddle' out)" -eq 1 ]
  [ "$("$HEDDLE" digest three)" = "$was" ]
  [ -z "$(errors err)" ]
}

@test "launch starts heddle train as ranks, too" {
  train --threads 1 --out one
  was=$DIGEST
  "$HEDDLE" launch -n 2 -- "$HEDDLE" train $TINY --threads 1 --out two >out
  [ "$(digest_of out)" = "$was" ]
  [ "$(grep -c '^rank [01] pid' out)" -eq 2 ]
}

@test "so do torchrun's variables, by hand, and mpirun" {
  train --threads 1 --out one
  was=$DIGEST
  RANK=1 WORLD_SIZE=2 MASTER_PORT=$$ "$HEDDLE" train $TINY --threads 1 --out two >second 2>&1 3>&- &
  RANK=0 WORLD_SIZE=2 MASTER_PORT=$$ "$HEDDLE" train $TINY --threads 1 --out two >out
  wait
  [ "$(digest_of out)" = "$was" ]
  [ ! -s second ]
  mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "the rest needs Open MPI's mpirun"
  mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent /bin/false -n 3 "$HEDDLE" train $TINY --threads 1 \
    --out three >out 2>err
  [ "$(digest_of out)" = "$was" ]
  [ "$(grep -c '^rank [012] pid' out)" -eq 3 ]
}

@test "without a parent process, the first surviving rank saves" {
  start_by_hand
  kill -KILL $CHILD
  code=0
  wait $other || code=$?
  [ "$code" -eq 1 ]
  finish
  cp err1 err
  grep -q "^heddle: rank 0 (pid .*; saved step $(readlink r/last | sed 's/step-//'), continue with --resume " err
  last=$(($(readlink r/last | sed 's/step-//') + 25))
  "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

@test "without a parent process, if all are killed at once, their supervisor saves and ends" {
  start_by_hand
  [ "$(grep -lsxz "[k]eeps the last step of $(pwd -P)/r" /proc/[0-9]*/cmdline | wc -l)" -eq 1 ]
  kill -STOP $CHILD $other # so that neither notices the other's end
  await_stopped $CHILD $other
  kill -KILL $CHILD $other
  finish
  await_supervisor
  last=$(readlink r/last | sed 's/step-//')
  told "the ranks on .* ended in the middle of the run; saved step $last, continue with --resume $(pwd -P)/r\$"
  [ "$(errors err err1 | wc -l)" -eq 1 ]
  nothing_half_written r
  last=$((last + 25))
  "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

@test "a supervisor is silent about ranks that ended regularly, and does not exist for ranks with a parent" {
  for r in 1 0; do
    RANK=$r WORLD_SIZE=2 MASTER_PORT=$$ "$HEDDLE" train $TINY --threads 1 --out r >out$r 2>err$r 3>&- &
  done
  wait
  await_supervisor
  [ -z "$(errors err0 err1)" ]
  rm -r r
  start_ranks 2
  no grep -lsxz "[k]eeps the last step of $(pwd -P)/r" /proc/[0-9]*/cmdline
  kill -INT "$CHILD"
  finish
  [ "$code" -eq 130 ]
}

@test "a rank 0 without a parent that stands still is ended before the others save, and does not go on later" {
  start_by_hand
  kill -STOP $CHILD
  code=0
  wait $other || code=$?
  [ "$code" -eq 1 ]
  no grep -qs '^State:.*stopped' "/proc/$CHILD/status"
  finish
  [ "$code" -eq 137 ]
  saved=$(readlink r/last)
  grep -q "^heddle: rank 0 (pid .* is stopped.*; saved step ${saved#step-}, continue with --resume " err1
  last=$((${saved#step-} + 25))
  "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
  nothing_half_written r
}

@test "a rank that is killed: the others are gone, with its line, and its last step is saved" {
  start_ranks 3
  trace=/dev/shm/__KMP_REGISTERED_LIB_${PID[1]}_$(id -u)
  : >>"$trace" # as LLVM's OpenMP runtime does
  kill -KILL "${PID[1]}"
  finish
  no_rank_left || { rm -f "$trace"; false; }
  [ "$code" -eq 137 ]
  told "rank 1 (pid ${PID[1]} on .*) was killed by signal 9 (Killed) after step [0-9]*"
  [ "$(grep -c 'rank 1 (pid' err)" -eq 1 ] # by the launcher; the ranks leave it to it
  nothing_lost
}

@test "rank 0 is no better" {
  start_ranks 2
  kill -SEGV "${PID[0]}"
  finish
  [ "$code" -eq 139 ]
  told "rank 0 (pid ${PID[0]} on .*) was killed by signal 11"
  no_rank_left
  nothing_lost
}

@test "a rank that is stopped" {
  start_ranks 3
  kill -STOP "${PID[2]}"
  finish
  [ "$code" -eq 137 ]
  told "rank 2 (pid ${PID[2]} on .*) is stopped"
  no_rank_left
  nothing_lost
}

@test "a running rank that does not reach the barrier ends the run after --stall-timeout, and not before" {
  code=0
  begin=$SECONDS
  "$HEDDLE" launch -n 2 -- "$BUILDDIR/tests/cli/host_steps" r stall >out 2>err || code=$?
  [ "$code" -eq 137 ] # it was killed, for it may never end by itself
  [ $((SECONDS - begin)) -ge 1 ]
  told "rank 1 (pid .*) is alive, but has not reached a barrier for 1 s (if that is expected, raise --stall-timeout) "\
"after step [34]"
  [ "$(readlink r/last)" = step-4 ]
}

@test "all ranks at once" {
  start_ranks 3
  kill -KILL "${PID[@]}"
  finish
  [ "$code" -eq 137 ]
  told "rank [012] (pid .* was killed by signal 9"
  no_rank_left
  nothing_lost
}

@test "the parent: its ranks do not stay behind" {
  start_ranks 2
  kill -KILL "$CHILD"
  finish
  [ "$code" -eq 137 ]
  while [ -e "/proc/${PID[0]}" ] || [ -e "/proc/${PID[1]}" ]; do sleep 0.01; done
  told "the process that started the ranks (pid .* is gone"
}

@test "SIGINT to the whole group, and SIGTERM to the parent alone: saved once, and 130 and 143" {
  start_ranks 2
  kill -INT "$CHILD" "${PID[@]}"
  finish
  [ "$code" -eq 130 ]
  [ "$(grep -c '^heddle: stopped after step' err)" -eq 1 ]
  rm -r r
  start_ranks 2
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
  no_rank_left
}

@test "SIGTERM to one rank alone: all stop, and the job ends as that rank does" {
  for told in 0 1; do
    start_ranks 2
    kill -TERM "${PID[$told]}"
    finish
    [ "$code" -eq 143 ]
    [ "$(grep -c '^heddle: stopped after step' err)" -eq 1 ]
    no_rank_left
    rm -r r
  done
}

@test "stopped together, and continued together: no rank is reported" {
  start_ranks 3 --max-steps 100000
  kill -STOP "${PID[@]}"
  for pid in "${PID[@]}"; do
    while ! grep -q '^State:.*stopped' "/proc/$pid/status"; do sleep 0.01; done
  done
  kill -CONT "${PID[@]}"
  await_line 'step [0-9]*:'
  await_line 'step [0-9]*:'
  kill -INT "$CHILD" "${PID[@]}"
  finish
  [ "$code" -eq 130 ]
}

@test "a slow disk: ranks wait for it while they train and when they stop, and no rank is reported" {
  LD_PRELOAD=$BUILDDIR/tests/cli/.libs/slow_disk.so start_ranks 2 --save-every 20 --stall-timeout 2
  kill -INT "$CHILD"
  finish
  [ "$code" -eq 130 ]
  [ "$(errors err | wc -l)" -eq 1 ]
  grep -q '^heddle: stopped after step' err
  "$HEDDLE" digest r >/dev/null
  nothing_half_written r
}

@test "a full disk: all ranks end, by the words of the one that writes" {
  mkdir disk
  mount -t tmpfs -o size=512k tmpfs disk 2>/dev/null || skip "no right to mount a small disk"
  MOUNTED=$PWD/disk
  code=0
  timeout "$LIMIT_S" "$HEDDLE" train $ENDLESS --procs 3 --out disk/r --save-every 20 --keep 100 >out 2>err || code=$?
  [ "$code" -eq 1 ]
  [ "$(grep -c '^heddle: rank 0 (pid .*) gave up after step [0-9]*: disk/r[:/].*No space left' err)" -eq 1 ]
  no grep -v 'No space left on device; free some space' <(errors err)
  nothing_half_written
  "$HEDDLE" digest disk/r >/dev/null
}

@test "Ctrl-Z and fg of the whole job, in a shell on a terminal" {
  need_terminal
  all_stopped='while awk -v g=$(jobs -p) "\$5 == g && \$3 != \"T\"" /proc/[0-9]*/stat 2>/dev/null | grep -q .; do '\
'sleep 0.01; done'
  PS1='ready> ' "$BUILDDIR/tests/cli/on_terminal" 24x400 screen 'wait:ready> ' \
    "send:$HEDDLE train $ENDLESS --procs 3 --out r"$'\r' 'wait:rank 2 pid' 'wait:step ' $'send:\x1a' 'wait:Stopped' \
    "send:$all_stopped; echo all \"are\" stopped"$'\r' 'wait:all are stopped' $'send:fg\r' 'wait:step ' 'wait:step ' \
    $'send:\x03' 'wait:stopped after step' 'wait:ready> ' $'send:echo code=$?\r' 'wait:code=130' $'send:exit 0\r' \
    -- bash --norc --noprofile -i
  no grep -q 'is stopped' screen
  grep -q 'stopped after step' screen
  [ -L r/last ]
}

@test "--max-restarts: lost once, and the digest of an undisturbed run" {
  rm -f pipe
  mkfifo pipe
  "$HEDDLE" launch -n 2 --max-restarts 1 -- "$HEDDLE" train $ENDLESS --max-steps 3000 --save-every 100 --out r >pipe \
    2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  await_line '^rank 1 pid '
  line=${line#rank * pid }
  pid=${line%% *}
  await_line 'step 40:'
  kill -KILL "$pid"
  finish
  [ "$code" -eq 0 ]
  grep -q 'resumed at step' rest
  told "starting all 2 ranks again"
  no grep -q 'continue with: ' err
  "$HEDDLE" train $ENDLESS --max-steps 3000 --out undisturbed >wanted
  [ "$(digest_of rest)" = "$(digest_of wanted)" ]
}

# differ 'SHELL WORDS' ARGS...: two ranks of a tiny run; the words run in each, with its number in RANK, and may change
# its arguments. Fails as the ranks do.
differ() {
  local words=$1
  shift
  rm -rf r
  timeout "$LIMIT_S" "$HEDDLE" launch -n 2 -- sh -c "$words"'; exec "$@"' sh "$HEDDLE" train --model simplenet \
    --data "$FEW" --max-steps 5 --threads 1 --out r "$@" >out 2>err
}

# refused TEXT: a run failed before its first step, with this message from all ranks.
refused() {
  [ "$(grep -c -F -x -e "heddle: $1; give all ranks the same" err)" -eq 2 ] || { cat out err; return 1; }
  [ ! -e r/metrics.jsonl ]
}

@test "what ranks do not agree on is refused by name" {
  unset HEDDLE_PLAN
  for option in seed eval-every save-every log-every keep eval-epochs sample-every; do
    no differ 'set -- "$@" --'$option' $((7 + RANK))'
    refused "--$option must be the same on all ranks: rank 0 has '7', and rank 1 has '8'"
  done
  for option in accumulate stages; do
    no differ 'set -- "$@" --'$option' $((1 + RANK))'
    refused "--$option must be the same on all ranks: rank 0 has '1', and rank 1 has '2'"
  done
  for words in "place-stages threads hosts" "schedule-stages gpipe 1f1b" "max-steps 9 10" "ema 0.5 0.25"; do
    set -- $words
    no differ 'if [ $RANK = 0 ]; then set -- "$@" --'"$1 $2"'; else set -- "$@" --'"$1 $3; fi"
    refused "--$1 must be the same on all ranks: rank 0 has '$2', and rank 1 has '$3'"
  done
  no differ '[ $RANK = 0 ] || set -- "$@" --label-smoothing 0' # not given: as the model says
  refused "--label-smoothing must be the same on all ranks: rank 0 has none, and rank 1 has '0'"
  no differ '[ $RANK = 0 ] || set -- "$@" --procs 3'
  grep -q "rank 1 (pid [0-9]* on .*) gave up: --procs expects the number of ranks that were started, 2, found 3" err
  no differ '[ $RANK = 0 ] || export HEDDLE_PLAN=-form'
  refused "HEDDLE_PLAN must be the same on all ranks: rank 0 has none, and rank 1 has '-form'"
}

@test "ranks of one host with other kernels, which read weights packed in another way, are refused" {
  no differ '[ $RANK = 0 ] && HEDDLE_ISA=reference || HEDDLE_ISA=scalar; export HEDDLE_ISA' --model cnn
  grep -q "the ranks of a host must have the same kernels: rank 0 has 'reference', and rank 1 .* has 'scalar'" err
}

@test "threads and places that a rank of a host asks for are those of the first rank, or refused" {
  the_ranks="the ranks of a host must have the same"
  no differ '[ $RANK = 0 ] || set -- "$@" --threads 2'
  grep -q "$the_ranks number of threads: rank 0 has '1 by --threads', and rank 1 on the same host has '2 by "\
"--threads'; " err
  no differ '[ $RANK = 0 ] || set -- "$@" --placement spread'
  grep -q "$the_ranks placement of threads: rank 0 has '--placement physical', and rank 1 .* has '--placement "\
"spread'; " err
  cpu=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
  no differ '[ $RANK = 0 ] || set -- "$@" --cpus '"$cpu" --placement physical
  grep -q "$the_ranks placement of threads: rank 0 has '--placement physical', and rank 1 .* has '--cpus $cpu'; " err
  no differ '[ $RANK = 0 ] || set -- "$@" --cpus 99999'
  grep -q "rank 1 (pid .*) gave up: --cpus expects CPUs that this process may use (.*), found 99999" err
  for threads in none 4096; do
    no differ '[ $RANK = 0 ] || export OMP_NUM_THREADS='$threads --threads auto
    grep -q "rank 1 (pid .*) gave up: OMP_NUM_THREADS expects a whole number .*, found '$threads'" err
  done
  differ '[ $RANK = 0 ] || set -- "$@" --cpus '"$cpu-$cpu --placement compact" --cpus "$cpu" || {
    cat out err
    return 1
  }
  grep -q '2 ranks of 1 thread on ' out
  # rank 1 has what rank 0 asks for
  differ '[ $RANK = 1 ] || set -- "$@" --placement spread' || { cat out err; return 1; }
}

@test "the first line has the threads of all ranks, and each rank says that it has fewer than asked for" {
  differ '[ $RANK = 0 ] || export OMP_THREAD_LIMIT=1' --threads 2 || { cat out err; return 1; }
  grep -q '2 ranks of 1 to 2 threads, 3 in all, on ' out
  grep -qx 'heddle: warning: OMP_THREAD_LIMIT allows 1 of 2 threads of rank 1; raise or unset it' err
}

@test "ranks may differ in what no other rank waits for, and in how a value is written" {
  differ : --lr 0.001 --seed 7 || { cat out err; return 1; }
  digest_of out >wanted
  differ '[ $RANK = 0 ] || set -- "$@" --lr 1e-3 --out other --workers 2 --prefetch-factor 3 --stall-timeout 90 '\
'--json' \
    --seed 7 || { cat out err; return 1; }
  [ "$(digest_of out)" = "$(cat wanted)" ]
  [ ! -e other ]
  differ '[ $RANK = 0 ] || set -- "$@" --betas .90,.9990 --weight-decay 1e-2 --shards 16 --sampler sequential --lr '\
'0.001' \
    --betas 0.9,0.999 --no-shuffle || { cat out err; return 1; }
  no differ '[ $RANK = 0 ] || set -- "$@" --betas .9,.998'
  refused "--betas must be the same on all ranks: rank 0 has '0.9,0.999', and rank 1 has '0.9,0.998'"
  for set in d0 d2; do mkdir $set && "$BUILDDIR/tests/bits/make_idx" $set 120 40; done
  ln -s d0 d1
  differ 'set -- "$@" --batch 8 --data ./d$RANK' || { cat out err; return 1; }
  "$BUILDDIR/tests/bits/make_idx" d2 128 40
  no differ 'set -- "$@" --batch 8 --data ./d$((2 * RANK))'
  grep -q "the data must be the same on all ranks: rank 0 has '120 training .*', and rank 1 has '128 training .*'" err
}

@test "a checkpoint, weights or a model file that one rank alone has is refused" {
  train --threads 1 --max-steps 3 --out one
  train --threads 1 --max-steps 4 --out two
  for option in "resume one" "init one/last/model.safetensors"; do
    no differ '[ $RANK = 0 ] || set -- "$@" --'"$option"
    refused "--${option% *} must be the same on all ranks: rank 0 has none, and rank 1 has 'a path'"
  done
  no differ '[ $RANK = 0 ] && run=one || run=two; set -- "$@" --resume $run --max-steps 9'
  grep -q "the checkpoint of --resume must be the same on all ranks: rank 0 has '.*', and rank 1 has '.*'; give" err
  for units in 20 21; do
    printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - a: {op: flatten}\n  - b: {op: linear, out: %d}\n' $units \
      >$units.yaml
  done
  no differ 'set -- "$@" --model $((20 + RANK)).yaml'
  refused "line 5 of the model must be the same on all ranks: rank 0 has '  - b: {op: linear, out: 20}', and rank 1 has\
 '  - b: {op: linear, out: 21}'"
  sed -n p 20.yaml >21.yaml # the same model, by another path
  sed -i 's/20/10/' 20.yaml 21.yaml
  differ 'set -- "$@" --model $((20 + RANK)).yaml' || { cat out err; return 1; }
}

@test "a rank that never comes is missed, and one that fails before it comes ends the others" {
  code=0
  "$HEDDLE" launch -n 2 -- sh -c '[ $RANK = 1 ] && exit 7; exec "$0" train "$@"' "$HEDDLE" $TINY --out r >out 2>err \
    || code=$?
  [ "$code" -eq 7 ]
  told "rank 1 (pid .*) ended with exit status 7"
}

# by_hand RANK ARGS...: one of two ranks without a parent; its messages in err-RANK.
by_hand() {
  local rank=$1
  shift
  RANK=$rank WORLD_SIZE=2 MASTER_PORT=$$ timeout 60 "$HEDDLE" train $TINY --threads 1 --out r "$@" >"out-$rank" \
    2>"err-$rank" 3>&-
}

@test "a rank without a parent that has a wrong command line says so to the others at once" {
  for bad in 0 1; do # the other one would wait for an hour
    for option in "--lr x" "--no-such-option" "operand"; do
      by_hand $((1 - bad)) --stall-timeout 3600 &
      other=$! code=0
      by_hand $bad $option || code=$?
      [ "$code" -eq 2 ]
      wait $other || code=$?
      [ "$code" -eq 1 ]
      said=$(sed 's/^heddle: //' err-$bad)
      [[ "$(cat err-$((1 - bad)))" == "heddle: rank $bad (pid "*") gave up: $said" ]] || { cat err-*; return 1; }
    done
  done
}

@test "ranks of another version of heddle are refused by name" {
  make_either '[ "$RANK" = 1 ]'
  code=0
  "$HEDDLE" launch -n 2 -- ./either train $TINY --out r >out 2>err || code=$?
  [ "$code" -ne 0 ]
  grep -q 'expected the memory of the ranks at descriptor 3, found that of another version of heddle; start' err
  HEDDLE=$PWD/either
  by_hand 1 &
  by_hand 0 || code=$?
  wait
  for rank in 0 1; do
    grep -q "expected one version of heddle in all ranks, found $version in rank 0 and another one in pid " err-$rank ||
      { cat err-*; return 1; }
  done
}

@test "launch passes on the environment of ranks, and the exit code of the first that fails" {
  "$HEDDLE" launch -n 3 -- sh -c 'echo "$RANK/$LOCAL_RANK/$WORLD_SIZE/$LOCAL_WORLD_SIZE/$MASTER_ADDR"' >out
  [ "$(sort out | tr '\n' ' ')" = "0/0/3/3/127.0.0.1 1/1/3/3/127.0.0.1 2/2/3/3/127.0.0.1 " ]
  code=0
  "$HEDDLE" launch -n 2 -- sh -c 'exit $((RANK * 5))' 2>err || code=$?
  [ "$code" -eq 5 ]
}

@test "launch names a program that is not there, or is none" {
  fails 1 launch -n 2 -- nosuchprog
  says "nosuchprog" "check the program's name"
  echo text >text
  fails 1 launch -n 2 -- ./text
  says "./text" "check the program's name"
}

@test "numbers of ranks that are none" {
  fails 2 train --procs 0
  code=0
  "$HEDDLE" launch -n 2 -- "$HEDDLE" train $TINY --procs 3 --out r >out 2>err || code=$?
  [ "$code" -eq 2 ]
  grep -q '^heddle: --procs expects the number of ranks that were started, 2, found 3; leave it out' err
  [ ! -e r ]
  fails 2 launch -n 0 -- true
  fails 2 launch -n 2
  fails 1 launch -n 2 -- /no/such/program
  says "/no/such/program"
  HEDDLE_WORLD=0/2 fails 2 train $TINY
  says "descriptor 3"
  HEDDLE_SUPERVISOR=1 fails 1 train $TINY
  says "descriptor 3"
}

# Rank 1 is assigned 14 of the 16 shards: the others must wait for it.
slow_rank_1() {
  "$HEDDLE" launch -n 3 -- sh -c 'HEDDLE_THREAD_SPEEDS=$([ $RANK = 1 ] && echo 14 || echo 1) exec "$0" train "$@"' \
    "$HEDDLE" \
    --model cnn --threads 1 "$@" >out
}

@test "where time goes: the rank that has most to do is the one waited for" {
  # Steps so long that a busy machine's scheduler, which may be late with any rank, is not what others wait for.
  train --data digits --model cnn --batch 1024 --max-steps 6 --epochs 100 --threads 1 --out one
  slow_rank_1 --batch 1024 --max-steps 6 --epochs 100 --log-every 2 --out r --json
  [ "$(digest_of out)" = "$DIGEST" ]
  [ "$(json_get rank_times.0.waited_for rank_times.2.waited_for <out)" = "1 1" ]
  [ "$(json_get rank_times.1.waited_for <out)" != 1 ]
  grep '"loss"' r/metrics.jsonl >lines
  [ "$(wc -l <lines)" -eq 3 ]
  json_get ranks.0.waited_for ranks.2.waiting_s <lines
  awk -v compute="$(json_get rank_times.1.compute_s <out)" -v data="$(json_get rank_times.1.data_s <out)" \
    -v waiting="$(json_get rank_times.1.waiting_s <out)" -v all="$(json_get train_s <out)" \
    'BEGIN { exit !(compute > 0 && data > 0 && waiting > 0 && compute + data + waiting < 1.1 * all) }'
  grep -Eq '^rank +data s +compute s +waiting s +mostly for$' out
  [ "$(grep -Ec '^   [02] ( +[0-9.]+){3}  rank 1, [0-9.]+ s$' out)" -eq 2 ]
  train --threads 1 --out alone
  no grep -q '^rank ' out
  no grep -q '"ranks":\[' alone/metrics.jsonl
}

@test "a profile has the threads of all ranks, and names the rank waited for" {
  slow_rank_1 --batch 1024 --max-steps 6 --epochs 100 --log-every 2 --out r --profile p.json # long steps: see above
  for rank in 0 1 2; do
    grep -q "\"ph\": \"M\", \"pid\": $((rank + 1)), .*\"process_name\", \"args\": {\"name\": \"rank $rank\"}" p.json
    [ "$(grep -c "\"ph\": \"X\", \"pid\": $((rank + 1)), \"tid\": $((rank + 1)), .*\"name\": \"step\"" p.json)" -eq 6 ]
  done
  grep -q '"pid": 1, .*"wait", "args": {"for": "rank 1, thread 1"}' p.json
  grep -q '"pid": 3, .*"wait", "args": {"for": "rank 1, thread 1"}' p.json
  grep -q '"step": 6, "samples": 1024, "data_us": [0-9.]*, "compute_us": [0-9.]*, "waiting_us": [0-9.]*}' p.json
  grep -Eq '^profile .*waiting [0-9.]+ %; thread [02] of rank [02] waited for thread 1 of rank 1 for '\
'[0-9.]+ % of its time; 6 of 6 steps$' out
  json_keys <<<"$(tr -d '\n' <p.json)" | grep -q traceEvents
  nothing_half_written
}

@test "a profile of a run that lost a rank shows what that one did" {
  start_ranks 3 --profile p.json
  kill -KILL "${PID[2]}"
  finish
  told "rank 2 (pid ${PID[2]} on .*) was killed"
  grep -q '"pid": 3, "tid": 3, .*"name": "step", "cat": "step", "args": {"step": 40, ' p.json
  [ "$(tail -c 3 p.json)" = "]}" ]
  no_rank_left
}

@test "ranks record together or not at all" {
  code=0
  "$HEDDLE" launch -n 2 -- sh -c 'exec "$0" train "$@" --out r $([ $RANK = 0 ] && echo --profile p)' "$HEDDLE" $TINY \
    >out 2>err || code=$?
  [ "$code" -ne 0 ]
  grep -q -e "--profile must be the same on all ranks: rank 0 has 'a path', and rank 1 has none" err
}
