# Groups of GPUs through stand-ins for NVIDIA's driver and NCCL: the same bits as in the host's memory, and one line
# when something is missing, differs, is late or is lost.

load cli

CALLS=$BUILDDIR/tests/cli/group_calls
export HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so \
  HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
export HEDDLE_NCCL=$BUILDDIR/tests/cuda/.libs/nccl_stub.so HEDDLE_MODULE_PATH=$BUILDDIR/.libs
export STUB_CUDA_GPUS=3 STUB_CUDA_MEMORY=4000000000 GROUP_MEMORY=group

need_nccl() { [ -e "$BUILDDIR/.libs/heddle-nccl.so" ] || skip "heddle was configured without NCCL"; }

# ranks N ARGS...: N ranks of the program, as `heddle launch` starts them; their exit code in $code.
ranks() {
  code=0
  timeout "$LIMIT_S" "$HEDDLE" launch -n "$@" >out 2>err || code=$?
}

@test "every call on GPUs gives what it gives in memory" {
  need_nccl
  for n in 1 2 3; do
    GROUP_BACKEND=shm ranks $n -- "$CALLS"
    [ "$code" -eq 0 ] || { cat err; return 1; }
    mv out wanted
    GROUP_BACKEND=nccl STUB_CUDA_TOLD=told ranks $n -- "$CALLS"
    [ "$code" -eq 0 ] || { cat err; return 1; }
    grep -q "^$n ranks " out
    cmp out wanted
    [ "$(cut -d ' ' -f 1 told | sort -u | wc -l)" -eq $n ]
    rm told
  done
}

@test "native sums are NCCL's, portable ones go by rank" {
  need_nccl
  export GROUP_BACKEND=nccl
  ranks 3 -- "$CALLS" order
  [ "$(cat out)" = 0 ]
  GROUP_ARITHMETIC=native ranks 3 -- "$CALLS" order
  [ "$(cat out)" = 1 ]
  GROUP_ARITHMETIC=native ranks 2 -- "$CALLS"
  [ "$code" -eq 0 ] || { cat err; return 1; }
}

@test "what is missing is named: module, library, GPUs" {
  export GROUP_BACKEND=nccl
  HEDDLE_MODULE_PATH=/nowhere ranks 2 -- "$CALLS"
  [ "$code" -eq 1 ]
  grep -q 'expected the module heddle-nccl.so for backend nccl, found none in HEDDLE_MODULE_PATH' err
  need_nccl
  HEDDLE_NCCL=/no/such/nccl ranks 2 -- "$CALLS"
  grep -q "backend nccl expects NVIDIA's NCCL, found none: /no/such/nccl cannot be loaded; install libnccl2" err
  HEDDLE_NCCL=$HEDDLE_CUDA_DRIVER ranks 2 -- "$CALLS"
  grep -q 'has no ncclGetUniqueId' err
  STUB_CUDA_GPUS=1 ranks 2 -- "$CALLS"
  grep -q 'backend nccl expects a GPU for each of the 2 ranks of a host, found 1' err
}

@test "calls and messages that differ" {
  need_nccl
  export GROUP_BACKEND=nccl
  ranks 2 -- "$CALLS" differ
  [ "$code" -eq 1 ]
  grep -q 'expected all ranks to make the same call, but rank 0 calls all_reduce of 4 float32 by sum and rank 1 '\
'calls barrier' err
  ranks 2 -- "$CALLS" letters
  grep -q 'expected sender and receiver to give the same count and type, found 10 float32 in rank 0 and 20 float32 '\
'in rank 1' err
}

@test "a rank that does not come, a transfer that does not end, one that fails" {
  need_nccl
  export GROUP_BACKEND=nccl
  ranks 2 -- "$CALLS" late
  grep -q 'expected all ranks to make the same call within 0.5 s, but rank 1 did not' err
  ranks 2 -- "$CALLS" silent
  grep -q 'rank 0: expected rank 1 to send within 0.5 s, but it did not' err
  GROUP_TIMEOUT=2 STUB_NCCL_HANG=4 ranks 2 -- "$CALLS"
  [ "$code" -eq 1 ]
  grep -q 'expected NCCL to finish within 2 s, but rank [01] was still waiting' err
  STUB_NCCL_ERROR=4 ranks 2 -- "$CALLS"
  [ "$code" -eq 1 ]
  grep -Eq 'rank [01]: GPU [01] \(Stub GPU\): NCCL: remote process exited' err
}

@test "a rank that dies in a transfer: the others stop waiting, and name it" {
  need_nccl
  GROUP_BACKEND=nccl STUB_NCCL_DIE=1:7 ranks 3 -- "$CALLS"
  [ "$code" -eq 137 ]
  grep -Eq '^rank 0: rank 1 \(pid [0-9]+ on .*\) was killed by signal 9' err
  grep -Eq '^rank 2: rank 1 \(pid [0-9]+ on .*\) was killed by signal 9' err
}

@test "a group takes its memory along" {
  need_nccl
  GROUP_BACKEND=nccl ranks 2 -- "$CALLS" free
  [ "$code" -eq 0 ] || { cat err; return 1; }
}
