# Several GPUs through a stand-in for NVIDIA's driver: what makes no sense is refused in one line, a GPU or a rank that
# is lost costs what it costs with one, and the rest goes on from what is whole.

load cli
load ranks
. "$SRCDIR/tests/mpi_lib.sh"

export HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so \
  HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
export STUB_CUDA_GPUS=3
RUN="train --model simplenet --data $FEW --out run"
MOST_BEHIND=2 # a GPU rank counts a step at the exchange of the next one

@test "lists of GPUs that are none, or not there" {
  fails 2 $RUN --device cuda:0,0
  says "GPU 0 twice in 'cuda:0,0'"
  for list in cuda: cuda:0, cuda:,1 cuda:1,x cuda:all,1 cuda:-1; do
    fails 2 $RUN --device "$list"
    says "found '$list'"
  done
  fails 1 $RUN --device cuda:0,9
  says "--device cuda:9 expects a GPU of that number, found 3 GPUs"
  [ ! -e run ]
}

@test "more GPUs than shards, more ranks than GPUs, other numbers of both" {
  fails 1 $RUN --device cuda:0,1,2 --shards 2
  says "found 3 GPUs and 2 shards"
  code=0
  "$HEDDLE" $RUN --device cuda --procs 4 >out 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q 'expects a GPU for each rank of a host, .* found 3 GPUs and 4 ranks' err
  code=0
  "$HEDDLE" $RUN --device cuda:0,1,2 --procs 2 >out 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q 'found 3 GPUs and 2 ranks; start 3' err
  [ ! -e run ]
}

@test "ranks that are shown one GPU each, as batch systems do" {
  "$HEDDLE" $RUN --device cuda --procs 2 --max-steps 6 --threads 1 --json >out
  for shown in '$((1 - RANK))' 1; do
    code=0
    "$HEDDLE" launch -n 2 -- sh -c "export CUDA_VISIBLE_DEVICES=$shown"'; exec "$HEDDLE" '"$RUN"'-own --device cuda '\
'--max-steps 6 --threads 1 --json' \
      >own 2>err || code=$?
    [ "$shown" != 1 ] || break
    [ "$code" -eq 0 ]
    [ "$(json_get device ranks weights_sha256 <own)" = "cuda:0 2 $(json_get weights_sha256 <out)" ]
  done
  [ "$code" -eq 1 ]
  grep -q 'expects a GPU for each rank of a host, .* ranks 0 and 1 have the same; give them different ones' err
}

@test "cuda:all takes all, and the report names them" {
  "$HEDDLE" $RUN --device cuda:all --max-steps 3 --json >out
  [ "$(json_get device <out)" = cuda:0,1,2 ]
  "$HEDDLE" $RUN-2 --device cuda:2,0 --procs 2 --max-steps 3 --json >out
  [ "$(json_get device ranks <out)" = "cuda:2,0 2" ]
}

@test "the memory of each GPU, of each rank" {
  "$HEDDLE" $RUN --device cuda:2,0 --max-steps 3 --json >out
  [ "$(grep -Ec '^GPU memory      GPU [02]: [0-9.]+ MiB allocated, .*: weights .*data set' out)" -eq 2 ]
  [ "$(json_get gpu_memory.0.rank gpu_memory.0.gpu gpu_memory.1.rank gpu_memory.1.gpu <out)" = "0 2 0 0" ]
  [ "$(json_get gpu_memory.0.reserved_bytes gpu_memory.0.parts.weights.bytes <out)" = \
    "$(json_get gpu_memory.1.reserved_bytes gpu_memory.1.parts.weights.bytes <out)" ]
  "$HEDDLE" $RUN-2 --device cuda --procs 3 --max-steps 3 --json >out
  [ "$(grep -Ec '^GPU memory      rank [012], GPU [012]: ' out)" -eq 3 ]
  [ "$(json_get gpu_memory.2.rank gpu_memory.2.gpu <out)" = "2 2" ]
  [ "$(json_get gpu_memory.2.parts.optimizer.bytes <out)" = "$(json_get gpu_memory.0.parts.optimizer.bytes <out)" ]
  [ "$(json_get gpu_memory.2.allocated_bytes <out)" -gt 0 ]
}

@test "where ranks' time went: to computing, or to waiting for whom" {
  "$HEDDLE" launch -n 3 -- sh -c '[ "$RANK" = 1 ] || export STUB_CUDA_SKIP=1 # the others have nothing to do
    exec "$HEDDLE" '"$RUN"' --device cuda --batch 1024 --epochs 1 --threads 1 --json' >out
  [ "$(json_get rank_times.0.waited_for rank_times.2.waited_for <out)" = "1 1" ]
  grep -Eq '^ +0 +[0-9.]+ +[0-9.]+ +[0-9.]+  rank 1, [0-9.]+ s$' out
  for rank in 0 1; do
    awk -v data="$(json_get rank_times.$rank.data_s <out)" -v compute="$(json_get rank_times.$rank.compute_s <out)" \
      -v waiting="$(json_get rank_times.$rank.waiting_s <out)" -v all="$(json_get train_s <out)" -v rank=$rank 'BEGIN {
        sum = data + compute + waiting
        exit !(sum > 0.5 * all && sum < 1.05 * all && (rank == 1 || waiting > 0)) }'
  done
}

@test "where the time of ranks on several hosts went" {
  mpi_missing
  [ -z "$MISSING" ] || skip "$MISSING"
  over "a b a" sh -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] || export STUB_CUDA_SKIP=1
    exec "$HEDDLE" '"$RUN"' --device cuda --batch 1024 --max-steps 12 --threads 1 --json' | tr -d '\r' >out
  [ "$(json_get ranks hosts <out)" = "3 2" ]
  # rank 2 hears of the other host by rank 0
  [ "$(json_get rank_times.0.waited_for rank_times.2.waited_for <out)" = "1 1" ]
  [ "$(json_get rank_times.1.waited_for <out)" != 1 ]
  for rank in 0 1 2; do # the others' kernels do nothing, so rank 1 computes longest however busy the machine is
    awk -v compute="$(json_get rank_times.$rank.compute_s <out)" \
      -v waiting="$(json_get rank_times.$rank.waiting_s <out)" \
      -v most="$(json_get rank_times.1.compute_s <out)" \
      'BEGIN { exit !(compute > 0 && waiting > 0 && compute <= most) }'
  done
}

@test "GPUs that cannot reach each other, too little memory on one of them" {
  "$HEDDLE" $RUN --device cuda:0,1 --max-steps 3 >out
  STUB_CUDA_APART=1 "$HEDDLE" $RUN-2 --device cuda:0,1 --max-steps 3 >out2
  [ "$(digest_of out)" = "$(digest_of out2)" ]
  rm -r run run-2
  STUB_CUDA_NO_MEMORY=8 fails 1 $RUN --device cuda:0,1
  says "GPU 1 (Stub GPU)"
  STUB_CUDA_MEMORY=3000000 fails 1 $RUN --device cuda:0,1 --batch 4096
  batch=$(echo "$message" | sed 's/.*use --batch //')
  [ "$batch" -ge 1 ]
  STUB_CUDA_MEMORY=3000000 "$HEDDLE" $RUN --device cuda:0,1 --batch "$batch" --max-steps 1 >out
}

@test "a GPU that is lost while others go on: it is named, and what was saved before is whole" {
  "$HEDDLE" $RUN --device cuda:0,1 --max-steps 20 --save-every 10 --no-shuffle >out
  whole=$(digest_of out)
  rm -r run
  STUB_CUDA_LOSE=110 STUB_CUDA_LOSE_GPU=1 fails 1 $RUN --device cuda:0,1 --max-steps 20 --save-every 10 --no-shuffle
  says "GPU 1 (Stub GPU): " "CUDA_ERROR_ILLEGAL_ADDRESS" "--resume run"
  [ -e run/step-10 ]
  "$HEDDLE" train --resume run --max-steps 20 >out
  [ "$(digest_of out)" = "$whole" ]
}

@test "a rank that is killed: its last step is saved from the others' GPUs" {
  start_ranks 3 --device cuda
  kill -KILL "${PID[1]}"
  finish
  [ "$code" -eq 137 ]
  told "rank 1 (pid ${PID[1]} on .*) was killed by signal 9 (Killed) after step [0-9]*"
  no_rank_left
  nothing_lost
}

@test "rank 0 is no better" {
  start_ranks 2 --device cuda
  kill -KILL "${PID[0]}"
  finish
  [ "$code" -eq 137 ]
  told "rank 0 (pid ${PID[0]} on .*) was killed"
  no_rank_left
  nothing_lost
}

@test "all ranks at once: what was in their GPUs' memory is gone, and the last checkpoint is named" {
  start_ranks 2 --device cuda --save-every 15
  until [ -e r/last ]; do await_line '^epoch|step [0-9]+:'; done
  kill -KILL "${PID[@]}"
  finish
  [ "$code" -eq 137 ]
  no_rank_left
  last=$(readlink r/last)
  # The kill may have come right behind a save, before another step counted: then that save has the last step.
  grep -Eq "^heddle: cannot save step [0-9]+: it was only in the memory of GPUs whose ranks have all ended; continue "\
"from step ${last#step-} with --resume $(pwd -P)/r\$" err ||
    grep -Eq "^heddle: rank [01] .* after step ${last#step-}\$" err || { cat err; false; }
  nothing_half_written r
  last=$((${last#step-} + 5))
  "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

@test "a rank whose GPU is lost gives up, and the others' last step is saved" {
  export STUB_CUDA_LOSE=2000 STUB_CUDA_LOSE_GPU=1
  start_ranks 3 --device cuda
  finish
  [ "$code" -eq 1 ]
  grep -q 'GPU 1 (Stub GPU): .*CUDA_ERROR_ILLEGAL_ADDRESS' err
  no_rank_left
  unset STUB_CUDA_LOSE
  last=$(readlink r/last)
  grep -q "^heddle: saved ${last/-/ } in .*/r; continue with: heddle train --resume " err
  last=$((${last#step-} + 5))
  "$HEDDLE" train --resume r --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

@test "SIGTERM to one rank alone: all stop at the same step, which is saved" {
  start_ranks 2 --device cuda
  kill -TERM "${PID[1]}"
  finish
  [ "$code" -eq 143 ]
  no_rank_left
  last=$(readlink r/last)
  last=$((${last#step-} + 5))
  "$HEDDLE" train --resume r --device cuda:0,1 --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

@test "GPUs and CPUs do not share a step" {
  code=0
  "$HEDDLE" launch -n 2 -- sh -c 'd=cpu; [ "$RANK" = 0 ] || d=cuda:0,1; exec "$HEDDLE" train --model simplenet --out '\
'run --device $d' \
    >out 2>err || code=$?
  [ "$code" -eq 2 ]
  grep -q 'device' err
}
