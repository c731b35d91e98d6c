# Ranks that mpirun starts, on hosts that are this machine under several names: messages when one is lost, what is
# refused, calls of groups, and launch --hosts. tests/bits/hosts.sh has the digests.

load cli
load ranks
load mpi

ENDLESS="$ENDLESS --out r"

# needs_time VERSIONS: for what ranks do when one is lost.
needs_time() {
  need_mpi
  [ "$MPI_KIND" = openmpi ] && $MPIRUN --version | grep -q "(Open MPI) [$1]" ||
    skip "this mpirun gives ranks no time to save, see docs/cluster.md"
  MPI_EXTRA='--mca odls_base_sigkill_timeout 5'
}

# start_on HOSTS: an endless run, past its step 40; pids of ranks are in PID[0], PID[1], ... What they and their
# supervisor complain of is in `err`: past mpirun, which may have ended.
start_on() {
  local rank
  PID=()
  : >err
  over "$1" sh -c 'exec "$@" 2>>err' sh "$HEDDLE" train $ENDLESS >out 2>mpirun.err 3>&- &
  CHILD=$!
  until grep -qs '"step":40,' r/metrics.jsonl; do
    kill -0 $CHILD || { cat out err mpirun.err; return 1; }
    sleep 0.05 # it looks again; the event is the line
  done
  while [ "$(grep -c '^rank [0-9]* pid' out)" -lt "$(wc -w <<<"$1")" ]; do sleep 0.05; done # which mpirun passes on
  while read -r _ rank _ pid _; do PID[rank]=$pid; done < <(grep '^rank [0-9]* pid' out)
}

ended() {
  local pid
  wait $CHILD || true
  CHILD=
  for pid in "${PID[@]}"; do while [ -e "/proc/$pid" ]; do sleep 0.05; done; done
}

# saved WORDS: rank 0's host saved the last whole step, with this message; the run goes on from there to the
# digest of an undisturbed one. If the disk is slower than mpirun is patient, it is the supervisor that does.
saved() {
  await_supervisor
  grep -q "^heddle: rank $1; saved step $(readlink r/last | sed 's/step-//'), continue with --resume " err || {
    cat err
    return 1
  }
  last=$(($(readlink r/last | sed 's/step-//') + 25))
  over "a b" "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(tr -d '\r' <out | grep -o 'weights_sha256.*')" = "$(grep -o 'weights_sha256.*' wanted)" ]
}

@test "one of several ranks on a host is lost: all hosts name it, and the first saves" {
  needs_time 4
  start_on "a a b b"
  kill -KILL "${PID[3]}"
  ended
  grep -q "^heddle: rank 3 (pid ${PID[3]} on b)" err
  saved "3 (pid ${PID[3]} on b) .*"
}

@test "a host is lost: the first host names it, and saves" {
  needs_time 4
  start_on "a b"
  kill -KILL "${PID[1]}"
  ended
  saved "1 (pid ${PID[1]} on b) does not answer while the job is being ended after step [0-9]*"
}

@test "a rank that stands still on another host" {
  needs_time 4-9
  start_on "a b b"
  kill -STOP "${PID[2]}"
  grep -q . <(tail --pid=$CHILD -f err | grep -m 1 'is stopped')
  kill -KILL "${PID[2]}"
  ended
  saved "2 (pid ${PID[2]} on b) is stopped, by SIGSTOP or a debugger,.*"
}

@test "SIGTERM to mpirun stops all hosts at one step, and saves it" {
  needs_time 4-9
  start_on "a b"
  kill -TERM $CHILD "${PID[@]}"
  ended
  grep -q "^heddle: stopped after step" err
  [ "$(readlink r/last)" = "step-$(sed -n 's/^heddle: stopped after step \([0-9]*\),.*/\1/p' err)" ]
}

@test "a launcher that kills all ranks when one is lost: their supervisor saves the last step" {
  need_mpi
  for hosts in "a b" "a a b"; do
    start_on "$hosts"
    logged=$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' r/metrics.jsonl | tail -n 1)
    kill -KILL "${PID[1]}"
    ended
    await_supervisor
    last=$(readlink r/last | sed 's/step-//')
    [ "$last" -ge "$logged" ]
    last=$((last + 25))
    over "$hosts" "$HEDDLE" train --resume r --max-steps $last >out
    "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
    [ "$(tr -d '\r' <out | grep -o 'weights_sha256.*')" = "$(grep -o 'weights_sha256.*' wanted)" ]
    rm -r r undisturbed
  done
}

@test "ranks and hosts are listed, and each sample is evaluated once" {
  need_mpi
  over "a b a" "$HEDDLE" train $TINY --threads 1 --json --out three >out 2>err
  tr -d '\r' <out >plain
  [ "$(json_get ranks hosts threads <plain)" = "3 2 1" ]
  grep -Eq '^rank 1 pid [0-9]+ cpus .* on b$' plain
  grep -q '3 ranks on 2 hosts over ' plain
  train --threads 1 --out one
  [ "$(json_get weights_sha256 test_loss test_accuracy train_loss <plain)" = \
    "$(json_get weights_sha256 test_loss test_accuracy train_loss <out)" ]
}

@test "where time goes, on all hosts" {
  need_mpi
  over "a b a" "$HEDDLE" train --model simplenet --threads 1 --max-steps 60 --log-every 20 --json --out r --profile \
    p.json \
    >out 2>err
  tr -d '\r' <out >plain
  for rank in 0 1 2; do # each computed, and waited for another one
    [ "$(json_get rank_times.$rank.waited_for <plain)" != $rank ]
    json_get "rank_times.$rank.data_s" "rank_times.$rank.compute_s" "rank_times.$rank.waiting_s" <plain |
      awk '{ exit !($1 > 0 && $2 > 0 && $3 > 0) }'
    grep -q "\"ph\": \"M\", \"pid\": $((rank + 1)), .*\"process_name\", \"args\": {\"name\": \"rank $rank\"}" p.json
    [ "$(grep -c "\"ph\": \"X\", \"pid\": $((rank + 1)), .*\"name\": \"step\"" p.json)" -eq 60 ]
  done
  [ "$(json_get rank_times.1.waited_for <plain)" = 0 ] # of the other host it hears by rank 0
  grep '"loss"' r/metrics.jsonl >lines
  [ "$(wc -l <lines)" -eq 3 ]
  json_get ranks.0.compute_s ranks.1.compute_s ranks.2.compute_s <lines | awk '{ exit !($1 * $2 * $3 > 0) }'
  grep -Eq '^rank +data s +compute s +waiting s +mostly for$' plain
  grep -Eq '^   1 ( +[0-9.]+){3}  rank 0, [0-9.]+ s$' plain
  grep -q '"pid": 2, "tid": 3, .*"to other hosts", "cat": "hosts", "args": {"for": "rank 0"}' p.json
  grep -q '"pid": 1, "tid": 1, .*"to other hosts", "cat": "hosts", "args": {"for": "rank 1"}' p.json
  json_keys <<<"$(tr -d '\n' <p.json)" | grep -q traceEvents
}

# exchanges OPTIONS...: how often two hosts exchange something in a step, as the profile shows.
exchanges() {
  rm -rf r p.json
  over "a b" "$HEDDLE" train --threads 1 --max-steps 20 --out r --profile p.json "$@" >out 2>err
  echo $(($(grep -c '"ph": "X", "pid": 1, .*"to other hosts"' p.json) / 20))
}

@test "sums by all-gather or by chunk owners: the same digest" {
  need_mpi
  export HEDDLE_HOST_SUMS=all-gather
  exchanges --model cnn >found
  [ "$(cat found)" = 1 ]
  gathered=$(tr -d '\r' <out | sed -n 's/^weights_sha256 *//p')
  HEDDLE_HOST_SUMS=owners
  exchanges --model cnn >found
  [ "$(cat found)" = 2 ]
  [ "$(tr -d '\r' <out | sed -n 's/^weights_sha256 *//p')" = "$gathered" ]
  unset HEDDLE_HOST_SUMS # two hosts: the default
  exchanges --model cnn >found
  [ "$(cat found)" = 1 ]
  code=0
  HEDDLE_HOST_SUMS=all over "a b" "$HEDDLE" train $TINY --out bad >out 2>err || code=$?
  [ $code -ne 0 ]
  grep -q "HEDDLE_HOST_SUMS expects all-gather or owners, found 'all'" err
}

@test "what hosts exchange in a steady state allocates nothing" {
  need_mpi
  for hosts in "a b" "a b b"; do
    for sums in all-gather owners; do
      HEDDLE_HOST_SUMS=$sums over "$hosts" "$BUILDDIR/tests/cli/host_steps" r-$sums-${#hosts} >out 2>err ||
        { cat out err; return 1; }
      [ "$(grep -c 'nothing was allocated in 1000 calls and 35 steps' out)" = "$(echo "$hosts" | wc -w)" ]
    done
  done
}

@test "srun is known by its variables" {
  need_mpi
  over "a b" sh -c '
    rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
    if [ -n "$OMPI_COMM_WORLD_RANK" ]; then unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE
      export SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_JOB_ID=1; fi
    exec "$@"' sh "$HEDDLE" train $TINY --threads 1 --json --out two >out 2>err
  tr -d '\r' <out >plain
  [ "$(json_get ranks hosts <plain)" = "2 2" ]
}

# each_rank HOSTS 'SHELL WORDS' ARGS...: ranks of heddle train ARGS; the words run in each, with its number in $rank,
# and may change its arguments.
each_rank() {
  local hosts=$1 words=$2
  shift 2
  over "$hosts" sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; '"$words"'; exec "$@"' sh "$HEDDLE" train "$@" >out \
    2>err
}

@test "what hosts do not agree on is refused by name" {
  need_mpi
  for option in seed eval-every accumulate; do
    no each_rank "a b" 'set -- "$@" --'$option' $((2 + 2 * rank))' --model simplenet --max-steps 5 --out r
    grep -q -e "--$option must be the same on all ranks: rank 0 on a has '2', and rank 1 on b has '4'; give" err
  done
  no each_rank "a b b" '[ $rank != 1 ] || set -- "$@" --place-stages hosts' $TINY --stages 2 --threads 1 --out r
  grep -q -e "--place-stages must be the same on all ranks: ranks 0,2 have 'threads', and rank 1 on b has 'hosts'; "\
"give" err
  [ ! -e r/metrics.jsonl ]
}

@test "hosts may have other numbers of threads and CPUs, and the first line has those of all" {
  need_mpi
  each_rank "a b" 'set -- "$@" --threads $((1 + 2 * rank)); [ $rank = 0 ] || set -- "$@" --placement compact' $TINY \
    --out r
  cpus=$("$HEDDLE" topo --threads 1 --json | json_get budget)
  grep -q "2 ranks on 2 hosts over .* of 1 to 3 threads, 4 in all, on $((2 * cpus)) CPUs" out || {
    cat out err
    return 1
  }
}

@test "names of hosts: one that is empty, one that is missing, and two that begin alike" {
  need_mpi
  no each_rank "a b" '[ $rank = 0 ] || export HEDDLE_HOST_ID=' $TINY --out r
  grep -q "HEDDLE_HOST_ID expects the name of a host, found an empty one in rank 1; set it on all ranks, or on none" err
  no over "- b" "$HEDDLE" train $TINY --stall-timeout 1 --out r 2>err
  grep -q "ranks* 1 did not;.*; or is HEDDLE_HOST_ID set on some of the ranks? Set it on all or on none" err
  long=$(printf '%0170d' 0)
  over "${long}a ${long}b" "$HEDDLE" train $TINY --threads 1 --out r >out
  grep -q "^rank 1 pid .* on 0* (host 1)" out
  grep -q '2 ranks on 2 hosts over ' out
}

@test "ranks that mpirun binds to a CPU each do not share it" {
  need_mpi
  [ "$(nproc)" -ge 2 ] || skip "this process has one CPU"
  command -v taskset >/dev/null || skip "taskset is not installed"
  cpus=($(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done))
  export CPU0=${cpus[0]} CPU1=${cpus[1]}
  over "- -" sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; eval "exec taskset -c \$CPU$rank \"\$@\""' sh "$HEDDLE" \
    train $TINY \
    --threads 1 --out r >out 2>err
  grep -q '2 ranks of 1 thread on 2 CPUs' out || { cat out err; return 1; }
  no grep warning err
  over "- -" taskset -c "$CPU0" "$HEDDLE" train $TINY --threads 1 --out one >out 2>err
  grep -q "warning: 2 threads share 1 CPU, which is slower; use at most 1 rank on each host" err
}

@test "stages on hosts, of which one is lost before a checkpoint: the advice is one that was not followed yet" {
  need_mpi
  lost_before() { # ARGS...: rank 1 is killed after step 40
    start_on "a b"
    kill -KILL "${PID[1]}"
    ended
    await_supervisor
  }
  ENDLESS="--model mlp --epochs 1000 --log-every 20 --threads 1 --stages 2 --place-stages hosts --out r"
  lost_before
  grep -q "each host had only the weights of its own stages; start again, and use --save-every$" err
  rm -rf r
  ENDLESS="$ENDLESS --save-every 1000000"
  lost_before
  grep -q "its own stages; start again, and use a smaller --save-every$" err
  rm -rf r
  local disk=$BUILDDIR/tests/cli/.libs/bad_disk.so
  if [ ! -f "$disk" ] || nm -D "$BUILDDIR/.libs/heddle" 2>/dev/null | grep -q __asan; then return 0; fi
  no each_rank "a b" '[ $rank = 1 ] || export LD_PRELOAD='"$disk"' BAD_DISK=write:0:ENOSPC:step-' --model mlp \
    --epochs 9 --threads 1 \
    --stages 2 --place-stages hosts --out r --save-every 40
  await_supervisor
  grep -q "and there is no checkpoint of --save-every 40 in .*r; see why they could not be written (a full disk?), "\
"and start again" err
}

@test "hosts with other versions of heddle are refused by name" {
  need_mpi
  make_either '[ "$HEDDLE_HOST_ID" = b ]'
  unset LD_LIBRARY_PATH
  HEDDLE_MODULE_PATH=$BUILDDIR/.libs over "a b" ./either train --model simplenet --max-steps 1 --out r >out 2>err &&
    false
  grep "expected one version of heddle on all hosts, found $version in rank 0 on .* and $(echo "$version" |
    tr 0-9 9) in rank 1" err
  [ ! -e r ]
}

@test "without the module, and with ranks of another launcher" {
  need_mpi
  code=0
  HEDDLE_MODULE_PATH=/nowhere over "a b" "$HEDDLE" train $TINY --out r >out 2>err || code=$?
  [ $code -ne 0 ]
  grep -q 'expected the module heddle-mpi.so for ranks on several hosts, found none in HEDDLE_MODULE_PATH; install' err
  OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 fails 2 train $TINY --out r
  [[ "$message" == *"expected 4 ranks, as Open MPI's mpirun says, found 1 in "* ]]
}

@test "torchrun on several hosts: the error names the command to use" {
  RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 fails 1 train $TINY --out r
  says 'mpirun -n 4 PROGRAM'
}

@test "a group sums over hosts as on one" {
  need_mpi
  calls=$BUILDDIR/tests/cli/group_calls
  "$HEDDLE" launch -n 3 -- "$calls" >wanted
  grep -q '^3 ranks ' wanted
  for hosts in "a b b" "a b c" "b a b"; do
    over "$hosts" "$calls" >out
    [ "$(tr -d '\r' <out)" = "$(cat wanted)" ]
  done
  GROUP_BACKEND=mpi over "- - -" "$calls" >out
  [ "$(tr -d '\r' <out)" = "$(cat wanted)" ]
}

@test "calls of a group that differ between hosts, and one that never comes" {
  need_mpi
  over "a b" "$BUILDDIR/tests/cli/group_calls" differ >out 2>err || true
  grep -q 'rank 0 calls all_reduce of 4 float32 by sum and rank 1 calls barrier' err
  over "a b" "$BUILDDIR/tests/cli/group_calls" short >out 2>err || true
  grep -q 'rank 1 (pid [0-9]* on b) cannot be reached: it sent 8 bytes less than were expected' err
  over "a b" timeout "$LIMIT_S" "$BUILDDIR/tests/cli/group_calls" late >out 2>err || true
  grep -q 'rank 0: rank 1 and its host did not make a call within 0.5 s' err
  grep -q 'rank 0 has destroyed its group' err # although rank 1 never ends the transport
}

@test "tags of groups over hosts are reused, and an unreceived message is not mistaken" {
  need_mpi
  over "a b" "$BUILDDIR/tests/cli/group_calls" tags >out 2>err || { cat err; return 1; }
  over "a b" "$BUILDDIR/tests/cli/group_calls" unreceived >out 2>err || true
  grep -q 'rank 1: expected a message of this group from rank 0 to rank 1, found one of a destroyed group' err
}

@test "memory that one of two hosts has not got is not kept by the other" {
  need_mpi
  over "a b" "$BUILDDIR/tests/cli/group_calls" room >out 2>err || { cat err; return 1; }
}

@test "a call that one leader has no memory for fails in all ranks" {
  need_mpi
  over "a a b" "$BUILDDIR/tests/cli/group_calls" starve >out 2>err || true
  for rank in 0 1 2; do
    grep -q "rank 0 (pid [0-9]* on a) gave up: out of memory for a call" rank.$rank || { cat rank.* err; return 1; }
  done
}

# missed RANK OTHERS...: all other ranks of a group found that this one has left, and ended.
missed() {
  local gone=$1 rank
  shift
  for rank; do
    grep -q -x -- "-[0-9]* rank $gone has left the group; do all ranks make the same calls?" rank.$rank ||
      { cat rank.* err; return 1; }
  done
  rm rank.*
}

@test "a rank that has left its group is missed at once, on all hosts" {
  need_mpi
  export GROUP_TIMEOUT=1000
  calls=$BUILDDIR/tests/cli/group_calls
  timeout "$LIMIT_S" "$HEDDLE" launch -n 2 -- "$calls" left 1 2>err # as on one host
  missed 1 0
  over "a b" timeout "$LIMIT_S" "$calls" left 1 2>err
  missed 1 0
  over "a b" timeout "$LIMIT_S" "$calls" left 1 recv 2>err
  missed 1 0
  over "a b b" timeout "$LIMIT_S" "$calls" left 2 2>err # not the first of its host
  missed 2 0 1
  over "a b a" timeout "$LIMIT_S" "$calls" left 0 2>err
  missed 0 1 2
}

# fake_mpirun WORDS: prints WORDS as its version, and records its arguments.
fake_mpirun() {
  printf '#!/bin/sh\n[ "$1" = --version ] && echo "%s" && exit\nprintf "%%s\\n" "$*" >called\nexit 7\n' "$1" >mpi_run
  chmod +x mpi_run
}

@test "launch --hosts calls mpirun, each kind in its way" {
  unset LD_LIBRARY_PATH HEDDLE_MODULE_PATH HEDDLE_PLAN
  export HEDDLE_MPIRUN=$PWD/mpi_run
  fake_mpirun 'mpirun (Open MPI) 4.1.4'
  code=0
  HEDDLE_DATA=/data "$HEDDLE" launch --hosts node1:2,node2 -- prog -x 1 2>err || code=$?
  [ "$code" -eq 7 ]
  [ "$(sed 's/ -x LD_LIBRARY_PATH//' called)" \
    = "-n 3 --host node1:2,node2 --mca odls_base_sigkill_timeout 3 -x HEDDLE_DATA prog -x 1" ]
  names=$(grep '^\*HEDDLE_' "$SRCDIR/docs/man/heddle.scd" | grep -v '^\*HEDDLE_\(HOST_ID\|MPIRUN\|WORLD\)' | tr -d '*,')
  [ "$(wc -w <<<"$names")" -gt 9 ]
  (for name in $names; do export "$name=plan"; done; "$HEDDLE" launch --hosts node1 -- prog 2>err) || true
  for name in $names; do
    grep -q -- " -x $name " called || { echo "$name"; cat called; false; }
  done
  fake_mpirun 'HYDRA build details: Version: 4.0.2'
  "$HEDDLE" launch --hosts node1:2,node2:2 -- prog 2>err || true
  [ "$(cat called)" = "-n 4 -hosts node1:2,node2:2 prog" ]
}

@test "launch --hosts without an mpirun, or with hosts that are none" {
  HEDDLE_MPIRUN=/no/mpirun fails 1 launch --hosts a:2,b:2 -- true
  says 'found none in HEDDLE_MPIRUN' 'tools/install-deps --mpi'
  for hosts in "" a:0 a: a:x ,a a,,b a:2000; do
    fails 2 launch --hosts "$hosts" -- true
    says 'such as node1:2,node2:2'
  done
  fails 2 launch --hosts a:2 -n 3 -- true
  fails 2 launch --hosts a:2 --max-restarts 1 -- true
  fails 2 launch --hosts a:2
}
