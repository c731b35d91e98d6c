# Gradients of several GPUs added by NCCL, with --arithmetic native, through stand-ins for NVIDIA's driver, libraries
# and NCCL: it really adds, all GPUs get the same weights, and what is missing, fails, waits in vain or is lost is told
# and ends nothing that was whole.

load cli
. "$SRCDIR/tests/mpi_lib.sh"

export HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so \
  HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
export HEDDLE_CUDA_LIBRARIES=$BUILDDIR/tests/cuda/.libs/library_stub.so \
  HEDDLE_NCCL=$BUILDDIR/tests/cuda/.libs/nccl_stub.so
export HEDDLE_MODULE_PATH=$BUILDDIR/.libs STUB_CUDA_GPUS=3
RUN="train --model simplenet --data $FEW --arithmetic native --precision tf32 --max-steps 12 --threads 1"

need_nccl() { [ -e "$BUILDDIR/.libs/heddle-nccl.so" ] || skip "heddle was configured without NCCL"; }

# digest_of_native FILE: the digest, behind which libraries are named.
digest_of_native() { sed -n 's/^weights_sha256  *\([0-9a-f]\{64\}\) (native, .*/\1/p' "$1"; }

# is_near WANTED FOUND: within a hundred thousandth.
is_near() {
  awk -v a="$1" -v b="$2" 'BEGIN {
    if (a + 0 != a || b + 0 != b) exit 1
    d = a > b ? a - b : b - a
    exit !(d <= 1e-5 * a)
  }'
}

# all_added N STEPS: N GPUs, in as many communicators, made so many sums of the same length.
all_added() {
  [ "$(sort told | cut -d ' ' -f 1-3)" = "$(for ((r = 0; r < $1; r++)); do echo "$r $1 $2"; done)" ] || {
    cat told
    return 1
  }
  [ "$(cut -d ' ' -f 4 told | sort -u | wc -l)" -eq 1 ]
}

# whole_until STEP OPTIONS: the run in `run` was saved at STEP, and goes on from there to the digest of an undisturbed
# one.
whole_until() {
  local step=$1
  shift
  [ "$(readlink run/last)" = "step-$step" ] || { ls run; cat err; return 1; }
  nothing_half_written run
  "$HEDDLE" train --resume run "$@" --max-steps 12 >out
  "$HEDDLE" $RUN "$@" --out undisturbed >wanted
  [ -n "$(digest_of_native out)" ]
  [ "$(digest_of_native out)" = "$(digest_of_native wanted)" ]
}

@test "NCCL adds on all GPUs, of one process and of ranks, to the same weights" {
  need_nccl
  "$HEDDLE" $RUN --device cuda --out one --json >out
  one=$(json_get train_loss <out)
  for n in 2 3; do
    STUB_NCCL_TOLD=told "$HEDDLE" $RUN --device "cuda:$(seq -s , 0 $((n - 1)))" --out "run-$n" --json >out
    [ "$(json_get gpu_sums <out)" = "NCCL 2.29.3" ]
    grep -q 'native arithmetic, gradients added by NCCL 2.29.3$' out
    grep -q '^weights_sha256 .*, NCCL 2.29.3)$' out
    is_near "$one" "$(json_get train_loss <out)"
    all_added $n 12
    rm told
    STUB_NCCL_TOLD=told "$HEDDLE" $RUN --device cuda --procs $n --out "ranks-$n" >ranks
    all_added $n 12
    rm told
    [ -n "$(digest_of_native out)" ]
    [ "$(digest_of_native out)" = "$(digest_of_native ranks)" ]
  done
  HEDDLE_NCCL=none "$HEDDLE" $RUN --device cuda:0,1,2 --out tree >by-tree
  [ "$(digest_of_native by-tree)" != "$(digest_of_native out)" ] # the stand-in adds from the last to the first
}

@test "networks with statistics of the batch, clipping, and shared weights" {
  need_nccl
  mkdir few
  "$BUILDDIR/tests/bits/make_idx" few 138 50
  for model in norm shared; do
    options="$RUN --model $SRCDIR/tests/bits/$model.yaml --data few --batch 32 --clip-grad-norm 1 --max-steps 5"
    "$HEDDLE" $options --device cuda --out "$model-one" --json >one
    STUB_NCCL_TOLD=told "$HEDDLE" $options --device cuda:0,1,2 --out "$model-here" --json >out
    all_added 3 5
    is_near "$(json_get train_loss <one)" "$(json_get train_loss <out)"
    "$HEDDLE" $options --device cuda --procs 3 --out "$model-ranks" >ranks
    [ -n "$(digest_of_native out)" ]
    [ "$(digest_of_native out)" = "$(digest_of_native ranks)" ]
    rm told
  done
}

@test "a last batch of fewer samples than GPUs: a GPU without samples adds nothing" {
  need_nccl
  printf 'model: few\ninput: [1, 1, 2]\nlayers:\n  - flat: {op: flatten}\n  - fc1: {op: linear, out: 8}\n'\
'  - relu1: {op: relu}\n  - fc2: {op: linear, out: 3}\n' >few.yaml
  (echo a,b,label; for ((i = 1; i <= 21; i++)); do echo "$i,0.$i,k$((i % 3))"; done) >few.csv # 17 to train: 16 and 1
  few="train --model few.yaml --data few.csv --batch 16 --max-steps 2 --threads 1 --optimizer sgd --lr 0.1"
  "$HEDDLE" $few --device cpu --out cpu --json >wanted
  for how in "cuda:0,1,2" "cuda --procs 3"; do
    STUB_NCCL_TOLD=told "$HEDDLE" $few --arithmetic native --precision tf32 --device $how --out run --json >out
    all_added 3 2
    awk -v a="$(json_get test_loss <wanted)" -v b="$(json_get test_loss <out)" \
      'BEGIN { exit !(a - b < 1e-3 && b - a < 1e-3) }'
    rm -r told run
  done
}

@test "ranks of two hosts" {
  need_nccl
  mpi_missing
  [ -z "$MISSING" ] || skip "$MISSING"
  STUB_NCCL_TOLD=told over "a b" "$HEDDLE" $RUN --device cuda --out run >out
  all_added 2 12
  "$HEDDLE" $RUN --device cuda:0,1 --out here >one-host
  [ -n "$(digest_of_native out)" ]
  [ "$(digest_of_native out)" = "$(digest_of_native one-host)" ]
}

@test "without NCCL the GPUs exchange by the tree, and a line says so" {
  export STUB_NCCL_TOLD=told
  HEDDLE_NCCL=/no/such/nccl "$HEDDLE" $RUN --device cuda:0,1 --out a --json >out
  grep -q '"gpu_sums": "tree"' out
  grep -q "^gradients of GPUs are added along the tree, not by NCCL: .*found none: /no/such/nccl cannot be loaded" \
    out ||
    grep -q "^gradients of GPUs are added along the tree, not by NCCL: expected the module heddle-nccl.so" out
  HEDDLE_NCCL=none "$HEDDLE" $RUN --device cuda --procs 2 --out b >out
  grep -q "added along the tree, not by NCCL: .*found HEDDLE_NCCL=none" out || [ ! -e "$BUILDDIR/.libs/heddle-nccl.so" ]
  HEDDLE_MODULE_PATH=/nowhere "$HEDDLE" $RUN --device cuda:0,1 --out c >out
  grep -q "not by NCCL: expected the module heddle-nccl.so for --arithmetic native, found none in HEDDLE_MODULE_PATH" \
    out
  [ ! -e told ]
  "$HEDDLE" train --model simplenet --max-steps 3 --device cuda:0,1 --out d --json >out # portable sums are never NCCL's
  grep -q '"gpu_sums": "tree"' out
  [ ! -e told ]
  "$HEDDLE" train --model simplenet --max-steps 3 --device cuda --out e --json >out
  [ -z "$(grep gpu_sums out)" ]
}

@test "one rank without NCCL: none goes by it" {
  need_nccl
  STUB_NCCL_TOLD=told "$HEDDLE" launch -n 2 -- sh \
    -c '[ "$RANK" = 0 ] || HEDDLE_NCCL=/no/such/nccl; exec "$HEDDLE" '"$RUN"' --device cuda --out run' \
    >out
  grep -q "not by NCCL: .*/no/such/nccl cannot be loaded" out
  [ ! -e told ]
}

@test "a sum that fails: one line, and the last checkpoint is whole" {
  need_nccl
  STUB_NCCL_ERROR=9 fails 1 $RUN --device cuda:0,1 --save-every 4 --out run
  says "GPU 0 (Stub GPU): NCCL: remote process exited" "HEDDLE_NCCL=none" "--resume run"
  whole_until 8 --device cuda:0,1
  rm -r run
  STUB_NCCL_REFUSE=18 fails 1 $RUN --device cuda:0,1 --save-every 4 --out run
  says "GPU 1 (Stub GPU): queueing a transfer" "--resume run"
  [ "$(readlink run/last)" = step-8 ]
}

@test "GPUs with other weights than the first are found" {
  need_nccl
  STUB_NCCL_SKEW=1 fails 1 $RUN --device cuda:0,1 --out run
  says "GPU 1 (Stub GPU): expected the weights of the first one bit for bit" "--arithmetic portable"
  code=0
  STUB_NCCL_SKEW=1 timeout "$LIMIT_S" "$HEDDLE" $RUN --device cuda --procs 2 --out ranks >out 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q 'expected the weights of rank [01] bit for bit' err
}

@test "a GPU that is lost, and with it all sums" {
  need_nccl
  STUB_CUDA_LOSE=60 STUB_CUDA_LOSE_GPU=1 fails 1 $RUN --device cuda:0,1,2 --save-every 2 --out run
  says "GPU 1 (Stub GPU): " "CUDA_ERROR_ILLEGAL_ADDRESS" "--resume run"
  step=$(readlink run/last)
  whole_until "${step#step-}" --device cuda:0,1,2
}

@test "a rank that dies while NCCL adds: the others give up, and the last whole step is saved" {
  need_nccl
  code=0
  STUB_NCCL_DIE=1:8 timeout "$LIMIT_S" "$HEDDLE" $RUN --device cuda --procs 3 --out run >out 2>err || code=$?
  [ "$code" -eq 137 ]
  grep -Eq '^heddle: rank 1 \(pid [0-9]+ on .*\) was killed by signal 9' err
  grep -q '^heddle: saved step 7 in' err
  whole_until 7 --device cuda --procs 3
}

@test "a sum that never ends" {
  need_nccl
  code=0
  STUB_NCCL_HANG=8 timeout "$LIMIT_S" "$HEDDLE" $RUN --device cuda --procs 2 --stall-timeout 8 --out run >out 2>err ||
    code=$?
  [ "$code" -eq 1 ]
  grep -Eq 'rank [01] .*gave up after step 7: NCCL did not finish within 8 s' err
  whole_until 7 --device cuda --procs 2
}
