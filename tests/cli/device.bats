# Training on a GPU through a stand-in for NVIDIA's driver: what is missing is reported in one line, and a failure loses
# nothing that was saved.

load cli

STUB=$BUILDDIR/tests/cuda/.libs/driver_stub.so
MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
GPU="train --device cuda --model simplenet --data $FEW --out run"

stub() { export HEDDLE_CUDA_DRIVER=$STUB HEDDLE_CUDA_MODULE=$MODULE; }

@test "without a driver, a module or a GPU, what is missing is named" {
  export HEDDLE_CUDA_DRIVER=/no/such/driver HEDDLE_CUDA_MODULE=$MODULE
  fails 1 $GPU
  [[ $message == *"expects NVIDIA's driver, found none: /no/such/driver"*"--device cpu"* ]]
  export HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/unit/.libs/nvml_stub.so
  fails 1 $GPU
  [[ $message == *"expects a newer driver, found "*"without cuInit"* ]]
  stub
  STUB_CUDA_INIT=100 fails 1 $GPU
  [[ $message == *"expects a GPU that the driver can use, found none (CUDA_ERROR_NO_DEVICE"* ]]
  STUB_CUDA_GPUS=0 fails 1 $GPU
  [[ $message == *"expects a GPU, found none"*CUDA_VISIBLE_DEVICES* ]]
  HEDDLE_CUDA_MODULE=/no/such/module fails 1 $GPU
  [[ $message == *"expects heddle's CUDA module, found none: /no/such/module"*"./configure --with-cuda=DIR"* ]]
  HEDDLE_CUDA_MODULE=$STUB fails 1 $GPU
  [[ $message == *"found that of another build"* ]]
  [ ! -e run ]
}

@test "a GPU that is not there, a driver too old, an architecture that the build lacks" {
  stub
  fails 1 train --device cuda:7 --model simplenet --out run
  [[ $message == *"--device cuda:7 expects a GPU of that number, found 1 GPU"* ]]
  STUB_CUDA_VERSION=12040 fails 1 $GPU
  [[ $message == *"expects a driver for CUDA 13.0 or later, found one for 12.4"* ]]
  STUB_CUDA_ARCH=75 fails 1 $GPU
  [[ $message == *"(80 90), found Stub GPU of 75; build with ./configure --with-cuda-arch=75"* ]]
  STUB_CUDA_ARCH=89 "$HEDDLE" $GPU --max-steps 1 --json >out
  grep -q '"isa": "sm_89"' out
  rm -r run
  STUB_CUDA_ARCH=120 STUB_CUDA_GPUS=2 "$HEDDLE" train --device cuda:1 --model simplenet --data $FEW --max-steps 1 \
    --out run --json >out
  grep -q '"device": "cuda:1"' out
  fails 2 train --device gpu
  [[ $message == *"--device expects auto, cpu, cuda, cuda:N, a list such as cuda:0,1 or cuda:all, found 'gpu'"* ]]
}

@test "optimizers and averages that only threads have are named" {
  stub
  for option in "--ema 0.9" "--lookahead 5"; do
    fails 1 $GPU $option
    [[ $message == *"--device cuda expects a run without --ema and --lookahead"*"--device cpu"* ]]
  done
  fails 1 $GPU --parameters '[{match: "*.weight", optimizer: muon}]'
  [[ $message == *"--device cuda expects a run without the optimizer muon"*"--device cpu"* ]]
  [ ! -e run ]
}

@test "a profile is of one GPU" {
  stub
  STUB_CUDA_GPUS=2 fails 1 train --device cuda:0,1 --model simplenet --out run --profile trace.json
  [[ $message == *"expects one GPU with --profile, found several"* ]]
  [ ! -e trace.json ]
}

@test "native: without the libraries, and what only they compute" {
  stub
  fails 2 $GPU --precision bf16
  [[ $message == *"--precision bf16 on a GPU expects --arithmetic native"* ]]
  fails 2 train --device cpu --precision tf32 --model simplenet --out run
  [[ $message == *"--precision tf32 expects a GPU, found --device cpu"* ]]
  HEDDLE_CUDA_LIBRARIES=/nowhere/libcublas.so fails 1 $GPU --arithmetic native
  [[ $message == *"--arithmetic native on a GPU expects cuBLAS, found none: /nowhere/libcublas.so"*\
"--arithmetic portable"* ]]
  HEDDLE_CUDA_LIBRARIES=$HEDDLE_CUDA_DRIVER fails 1 $GPU --arithmetic native
  [[ $message == *"found one without cublasCreate_v2"* ]]
  [ ! -e run ]
  export HEDDLE_CUDA_LIBRARIES=$BUILDDIR/tests/cuda/.libs/library_stub.so
  STUB_CUBLAS_FAILS=3 fails 1 $GPU --arithmetic native --precision tf32
  [[ $message == *"GPU 0 (Stub GPU): cuBLAS failed while multiplying (CUBLAS_STATUS_EXECUTION_FAILED)"* ]]
  cat >small.yaml <<'END'
model: small
input: [1, 12, 12]
layers:
  - conv1: {op: conv2d, out: 8, kernel: 3}
  - relu1: {op: relu}
  - flat: {op: flatten}
  - fc1: {op: linear, out: 10}
END
  for when in 1 2; do # it fails when its workspace is queried, or only when it computes
    STUB_CUDNN_REFUSES=$when STUB_CUDA_SAY=said "$HEDDLE" train --device cuda --model small.yaml --data random:1x12x12 \
      --max-steps 2 --out run --arithmetic native --precision tf32 >out
    grep -q "tf32 [1-9].* convolutions 0" said
    grep "^weights_sha256 .*(native, cuBLAS 13.0.2, cuDNN 9.13.0)" out >"digest-$when"
    rm -r run said
  done
  cmp digest-1 digest-2
  "$HEDDLE" $GPU --arithmetic native --max-steps 2 >out
  fails 2 train --resume run --device cpu --max-steps 3
  [[ $message == *"expected cuBLAS 13.0.2, cuDNN 9.13.0 as in that run"* ]]
}

@test "too little memory: required and free bytes, and the batch that would fit" {
  stub
  export STUB_CUDA_MEMORY=2000000
  fails 1 $GPU --batch 4096
  [[ $message == *"out of memory: expected "*" MiB free for a batch of 4096 (weights "*"; a batch of "*" would fit: "\
"use --batch "* ]]
  batch=$(echo "$message" | sed 's/.*use --batch //')
  [ "$batch" -ge 1 ]
  "$HEDDLE" $GPU --batch "$batch" --max-steps 1 >out
  rm -r run
  STUB_CUDA_MEMORY=1000 fails 1 $GPU
  [[ $message == *"--device cpu"* ]]
}

@test "each allocation may fail" {
  stub
  for n in 4 6; do
    STUB_CUDA_NO_MEMORY=$n fails 1 $GPU
    [[ $message == *"GPU 0 (Stub GPU)"* ]]
    [ ! -e run ]
  done
  for n in 1 2 3 5; do # without the data set there samples are fetched; evaluation makes do with less
    STUB_CUDA_NO_MEMORY=$n "$HEDDLE" $GPU --max-steps 1 >out
    rm -r run
  done
}

@test "a launch that is refused is named before the first step" {
  stub
  STUB_CUDA_REFUSE=3 fails 1 $GPU
  [[ $message == *"GPU 0 (Stub GPU): hdk_"*" failed (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"* ]]
}

@test "a GPU that is lost ends the run, and what was saved before is whole" {
  stub
  "$HEDDLE" $GPU --max-steps 20 --save-every 10 --no-shuffle >out
  whole=$(digest_of out)
  rm -r run
  STUB_CUDA_LOSE=90 fails 1 $GPU --max-steps 20 --save-every 10 --no-shuffle # a step has 5 kernels
  [[ $message == *"GPU 0 (Stub GPU): "*" failed (CUDA_ERROR_ILLEGAL_ADDRESS"*"--resume run"* ]]
  [ -e run/step-10 ]
  "$HEDDLE" train --resume run --max-steps 20 >out
  [ "$(digest_of out)" = "$whole" ]
}

@test "a number that is not finite keeps the last whole version" {
  stub
  fails 1 $GPU --optimizer sgd --lr 1e6 --weight-decay 1e6 --save-every 1 --max-steps 50
  on_gpu=$message
  fails 1 train --model simplenet --data $FEW --out run2 --optimizer sgd --lr 1e6 --weight-decay 1e6 --save-every 1 \
    --max-steps 50
  [ "$on_gpu" = "${message//run2/run}" ]
  [ "$("$HEDDLE" digest run)" = "$("$HEDDLE" digest run2)" ]
}

@test "auto times both devices, prints the times, leaves no trace and is kept" {
  stub
  AUTO="train --device auto --model simplenet --data $FEW --max-steps 20 --threads 1"
  "$HEDDLE" train --model simplenet --data $FEW --max-steps 20 --out alone >out
  alone=$(digest_of out)
  "$HEDDLE" $AUTO --out run --json >out
  grep -qE '^--device auto: cpu, with [0-9]+ samples/s on the GPU and [0-9]+ on [0-9]+ threads? of the CPU, measured '\
'in' out
  grep -q '"device": "cpu", "device_note": "--device auto: cpu, with' out
  [ "$(digest_of out)" = "$alone" ]
  "$HEDDLE" train --resume run --max-steps 21 >out
  grep -qx -- '--device auto: cpu, as in the resumed run' out
  STUB_CUDA_SKIP=1 "$HEDDLE" ${AUTO/simplenet/cnn --batch 256 --epochs 9} --out fast --json >out # so fast is no CPU
  grep -q '^--device auto: cuda:0, with ' out
  grep -q '"device": "cuda:0"' out
  grep -q '"device": "cuda:0"' fast/last/run.json
  STUB_CUDA_SKIP=1 "$HEDDLE" train --resume fast --max-steps 21 --json >out
  grep -qx -- '--device auto: cuda:0, as in the resumed run' out
  grep -q '"device": "cuda:0"' fast/last/run.json
  grep -q '"device": "auto"' fast/last/run.json
  "$HEDDLE" train --resume fast --max-steps 22 --device cpu --json >out
  grep -q '"device": "cpu", "arithmetic"' out
  HEDDLE_CUDA_DRIVER=/no/such/driver "$HEDDLE" train --resume fast --device auto --max-steps 23 >out
  grep -q '^--device auto: cpu, since a GPU needs NVIDIA.s driver, found none: /no/such/driver cannot be loaded$' out
}

@test "auto takes the CPU where a GPU cannot be used, and prints the reason" {
  stub
  AUTO="train --device auto --model simplenet --data $FEW --max-steps 2 --out run"
  says_cpu() {
    "$HEDDLE" $AUTO "$@" >out 2>err
    grep '^--device auto: ' out
    rm -r run
  }
  [[ "$(STUB_CUDA_GPUS=0 says_cpu)" == "--device auto: cpu, since a GPU needs a GPU, found none (the driver counts "\
"0)" ]]
  [[ "$(STUB_CUDA_VERSION=12040 says_cpu)" \
    == *"cpu, since a GPU needs a driver for CUDA 13.0 or later, found one for 12.4" ]]
  [[ "$(STUB_CUDA_ARCH=75 says_cpu)" == *"cpu, since a GPU needs a GPU of one of the architectures that this build "\
"has"* ]]
  [[ "$(STUB_CUDA_MEMORY=1000 says_cpu)" == *"cpu, since GPU 0 (Stub GPU) is out of memory: expected"* ]]
  [[ "$(STUB_CUDA_LOSE=3 says_cpu)" == *"cpu, since GPU 0 (Stub GPU): computing failed (CUDA_ERROR_ILLEGAL_ADDRESS"* ]]
  fails 2 train --device auto --arithmetic native --model simplenet --out run
  [[ $message == *"--device auto expects --arithmetic portable, found native"* ]]
  HEDDLE_CUDA_DRIVER=/no/such/driver "$HEDDLE" train --model simplenet --data $FEW --max-steps 2 --out run >out
  [ -z "$(grep -i -e gpu -e cuda -e driver out)" ]
}

@test "a run on the CPU reports an idle GPU, if it is visible" {
  stub
  export HEDDLE_NVML=$BUILDDIR/tests/unit/.libs/nvml_stub.so STUB_CUDA_GPUS=2 # the second one is idle
  RUN="train --model simplenet --data $FEW --max-steps 2 --out run"
  "$HEDDLE" $RUN --json >out
  grep -q '^1 GPU was idle (NVIDIA GeForce RTX 4090) while the CPU computed; ' out
  grep -q '"device_note": "1 GPU was idle .*", "idle_gpus": 1, ' out
  # asked last
  [ "$(grep -n 'GPU was idle' out | head -n 1 | cut -d : -f 1)" -gt "$(grep -n '^step' out | tail -n 1 |
    cut -d : -f 1)" ]
  rm -r run
  CUDA_VISIBLE_DEVICES=1 "$HEDDLE" $RUN >out
  grep -q '^1 GPU was idle' out
  rm -r run
  for hidden in 0 "" -1; do
    CUDA_VISIBLE_DEVICES=$hidden "$HEDDLE" $RUN --json >out
    [ -z "$(grep idle out)" ]
    rm -r run
  done
  STUB_GPU=lost "$HEDDLE" $RUN >out
  [ -z "$(grep idle out)" ]
  rm -r run
  HEDDLE_CUDA_MODULE=/no/such/module "$HEDDLE" $RUN >out
  [ -z "$(grep idle out)" ]
  rm -r run
  "$HEDDLE" $RUN --device cuda --json >out
  [ -z "$(grep idle out)" ]
}

@test "a GPU goes on while the host reads what came of steps: a longer run waits no more often" {
  stub
  for steps in 6 60; do
    STUB_CUDA_TOLD=told "$HEDDLE" $GPU --max-steps $steps --threads 1 >/dev/null
    waits=$(cut -d ' ' -f 4 told)
    [ "$waits" -gt 0 ]
    [ "$waits" -lt 100 ] # evaluation takes many at a time
    [ "$waits" -eq "${before:-$waits}" ]
    before=$waits
    rm -r run told
  done
}

# launches OPTIONS...: nodes of a step's graph, and how many of these run beside others.
launches() {
  STUB_CUDA_SKIP=1 STUB_CUDA_TOLD=told "$HEDDLE" train --device cuda --max-steps 2 --out run "$@" >/dev/null
  cut -d ' ' -f 5,6 told
  rm -r run told
}

@test "launches of a step" {
  stub
  [ "$(launches --model cnn --data random:1x28x28)" = "13 1" ]
  [ "$(launches --model mlp --data random:1x28x28)" = "7 1" ]
  # shards of more than 8 samples: gradients apart
  [ "$(launches --model cnn --data random:1x28x28 --batch 512)" = "15 1" ]
  [ "$(launches --model cnn --data random:1x28x28 --clip-grad-norm 1)" = "16 1" ]
  [ "$(launches --model cnn --data random:1x28x28 --workers 1)" = "12 1" ] # samples are read where they are copied to
}

@test "calls of the host for a step" {
  stub
  for steps in 100 200; do
    STUB_CUDA_TOLD=told "$HEDDLE" $GPU --max-steps $steps --threads 1 >/dev/null
    calls=$((calls + (steps == 200 ? 1 : -1) * $(cut -d ' ' -f 7 told)))
    rm -r run told
  done
  [ "$calls" -le 650 ] # in 100 steps: 4 for order, a copy and a graph each, and every eight a copy of results
}

@test "what memory of the GPU was for" {
  stub
  "$HEDDLE" $GPU --max-steps 2 --json >out
  grep -qE '^GPU memory      [0-9.]+ MiB allocated, [0-9.]+ reserved, [0-9.]+ at its peak, of 1024.0: weights .*data '\
'set' out
  "$HEDDLE" train --model simplenet --data $FEW --max-steps 2 --out cpu --json >on-cpu
  [ -z "$(grep -i gpu on-cpu)" ]
  command -v python3 >/dev/null || skip "python3 is not installed"
  tail -n 1 out | python3 -c '
import json, sys
(m,) = json.load(sys.stdin)["gpu_memory"]
assert (m["rank"], m["gpu"]) == (0, 0), m
parts = m["parts"]
assert sum(p["bytes"] for p in parts.values()) == m["allocated_bytes"] <= m["reserved_bytes"] <= m["peak_bytes"], m
assert m["total_bytes"] == 1 << 30 and m["free_bytes"] == m["total_bytes"] - m["reserved_bytes"], m
assert 2 * 4 * 7850 <= parts["weights"]["bytes"] < 2 * 4 * 7900, parts
assert parts["data set"]["bytes"] == 3840 * (784 + 4), parts
assert parts["tensors"] == {"bytes": 0, "peak_bytes": 0} and m["host_bytes"] > 0, m'
}

@test "a profile of a GPU: host, copies and each operation, and the same weights" {
  stub
  RUN="train --device cuda --model lenet5 --data random:1x28x28 --batch 8 --max-steps 20 --threads 1 --clip-grad-norm 1"
  "$HEDDLE" $RUN --out plain >out
  plain=$(digest_of out)
  "$HEDDLE" $RUN --out run --profile trace.json >out
  [ "$(digest_of out)" = "$plain" ]
  grep -qE '^profile  +trace.json: .*conv.* %, others [0-9]+ %; 20 of 20 steps$' out
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 -c '
import json
events = json.load(open("trace.json"))["traceEvents"]
track = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
assert list(track) == ["host", "GPU copy", "GPU compute", "checkpoint writer"], track
def of(name):
  return [e for e in events if e["ph"] == "X" and e["tid"] == track[name]]
assert {"step", "launch", "samples", "wait for the GPU", "evaluate"} <= {e["name"] for e in of("host")}
assert len(of("GPU copy")) == 20
compute = of("GPU compute")
steps = [e for e in compute if e["name"] == "step"]
assert len(steps) == 20 and steps[0]["args"] == steps[0]["args"] | {"step": 1, "samples": 8}, steps[0]
names = {e["name"] for e in compute}
assert "gather" not in names, names
wanted = {"conv1 forward", "conv2 dx", "conv1 dw", "loss forward", "reduce", "norm", "reduce, update"}
assert wanted - names <= {"reduce, update"}, names
for before, after in zip(steps, steps[1:]):
  assert after["ts"] >= before["ts"] + before["dur"] - 0.01
for copy, step in zip(of("GPU copy"), steps):
  assert copy["ts"] + copy["dur"] <= step["ts"] + 0.01
for inside in compute:
  assert any(s["ts"] - 0.01 <= inside["ts"] and inside["ts"] + inside["dur"] <= s["ts"] + s["dur"] + 0.01
             for s in steps)'
}

@test "eval and predict on a GPU print the CPU's numbers, to the last digit" {
  stub
  "$HEDDLE" train --model lenet5 --data random:1x28x28 --max-steps 3 --threads 1 --out run --device cuda >out
  for device in cpu cuda cuda:0 auto; do
    "$HEDDLE" eval run --device $device --json >eval-$device
    "$HEDDLE" predict run --index 0 --index 70 --device $device --json >predict-$device
    cmp eval-cpu eval-$device
    cmp predict-cpu predict-$device
  done
  fails 1 eval run --device cuda:7
  [[ $message == *"--device cuda:7 expects a GPU of that number"* ]]
  STUB_CUDA_LOSE=3 fails 1 eval run --device cuda
  [[ $message == *"GPU 0 (Stub GPU): "*CUDA_ERROR_ILLEGAL_ADDRESS* ]]
  STUB_CUDA_MEMORY=1000 fails 1 predict run --index 0 --device cuda
  [[ $message == *"is out of memory: expected"* ]]
}

@test "messages and devices number GPUs as the user does" {
  stub
  export HEDDLE_NVML=$BUILDDIR/tests/unit/.libs/nvml_stub.so STUB_CUDA_GPUS=2
  CUDA_VISIBLE_DEVICES=1 fails 1 train --device cuda:1 --model simplenet --data $FEW --out run
  [[ $message == *"--device cuda:1 expects a GPU of that number, found 1 GPU, numbered from 0; use cuda:0"* ]]
  numbers() { "$HEDDLE" devices --json | grep -oE '"cuda": *(null|[0-9]+)' | sed 's/.*: *//' | tr '\n' ' '; }
  [ "$(numbers)" = "0 1 " ]
  [ "$(CUDA_VISIBLE_DEVICES=1,0 numbers)" = "1 0 " ]
  [ "$(CUDA_VISIBLE_DEVICES=1 numbers)" = "null 0 " ]
  [ "$(HEDDLE_CUDA_MODULE=/no/such/module numbers)" = "null null " ]
  CUDA_VISIBLE_DEVICES=1 "$HEDDLE" devices >out
  grep -q '^GPU 1: NVIDIA GeForce RTX 4090, cuda:0, ' out
}

@test "heddle devices reports whether GPUs can be used" {
  stub
  "$HEDDLE" devices >out
  grep -q '^CUDA: 1 GPU can be used' out
  HEDDLE_CUDA_MODULE=/no/such/module "$HEDDLE" devices >out
  grep -q '^CUDA: .*/no/such/module cannot be loaded' out
}
