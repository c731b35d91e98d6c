# Networks cut into stages: what is printed, what is refused, a stage that is lost, and the pipeline in the profile.

load cli
load ranks

MLP="--model mlp --max-steps 20"

# cut LINES...: a model file of two convolutions and a linear layer, each with these settings more.
cut() {
  cat >cut.yaml <<END
model: cut
input: [1, 28, 28]
layers:
  - conv1: {op: conv2d, out: 4, kernel: 3$1}
  - relu1: {op: relu$2}
  - conv2: {op: conv2d, out: 4, kernel: 3, stride: 2$3}
  - flat: {op: flatten$4}
  - fc: {op: linear, out: 10$5}
END
}

@test "stages are printed with their layers, threads and ranks; the digest is that of the whole network" {
  train $MLP --threads 1 --out one
  was=$DIGEST
  train $MLP --threads 3 --stages 2 --out two
  [ "$DIGEST" = "$was" ]
  grep -Eq '^stage 0: +flat to relu, 100,480 parameters, 2 threads$' out
  grep -Eq '^stage 1: +fc2 to fc2, 1,290 parameters, 1 thread$' out
  train $MLP --threads 1 --procs 4 --stages 2 --out four
  [ "$DIGEST" = "$was" ]
  grep -Eq '^stage 1: .*, 2 threads of ranks 2-3$' out
  "$HEDDLE" train --resume four --max-steps 20 --threads 1 >out # a run says nothing of the stages it had
  ! grep -q '^stage' out
}

@test "stages of a model file are taken, with --stages as many as that, or none" {
  cut "" "" ", stage: 1" "" ", stage: 2"
  train --model cut.yaml --threads 1 --out one
  was=$DIGEST
  grep -q 'the 3 stages of the model file need a thread each, found fewer: the network is not cut' out
  train --model cut.yaml --threads 3 --out three
  [ "$DIGEST" = "$was" ]
  [ "$(grep -c '^stage' out)" -eq 3 ]
  grep -Eq '^stage 1: +conv2 to flat, 148 parameters' out
  train --model cut.yaml --threads 3 --stages 2 --out two
  [ "$DIGEST" = "$was" ]
  [ "$(grep -c '^stage' out)" -eq 2 ]
  train --model cut.yaml --threads 3 --stages 1 --out none
  [ "$DIGEST" = "$was" ]
  ! grep -q '^stage' out
}

@test "auto cuts by measured time, and says how" {
  train $MLP --threads 2 --stages auto --out auto
  grep -Eq "^--stages auto: cut by the layers' time in [0-9]+ steps, [0-9]+ %, [0-9]+ %\$" out
  [ "$(grep -c '^stage' out)" -eq 2 ]
}

@test "auto makes a stage of each layer with parameters at most, and 32" {
  printf 'model: deep\ninput: [1, 8, 8]\nlayers:\n  - flat: {op: flatten}\n' >deep.yaml
  printf '  - l%s: {op: linear, out: 10}\n' $(seq 40) >>deep.yaml
  "$HEDDLE" train --model deep.yaml --data random:1x8x8 --threads 40 --stages auto --max-steps 1 --out deep >out
  [ "$(grep -c '^stage' out)" -eq 32 ]
  printf 'model: norms\ninput: [1, 8, 8]\nlayers:\n' >norms.yaml
  printf '  - %s\n' 'conv: {op: conv2d, out: 4, kernel: 3}' 'bn: {op: batch_norm}' 'relu: {op: relu}' \
    'flat: {op: flatten}' 'fc: {op: linear, out: 10}' >>norms.yaml
  "$HEDDLE" train --model norms.yaml --data random:1x8x8 --threads 4 --stages auto --max-steps 1 --out norms >out
  [ "$(grep -c '^stage' out)" -eq 3 ]
  fails 2 train --model norms.yaml --data random:1x8x8 --threads 4 --stages 4 --out r
  says "at most 3 for this network" "found 4"
}

@test "stages that cannot be are refused" {
  fails 2 train $MLP --threads 4 --stages 3 --out r
  says "at most 2 for this network" "found 3"
  fails 2 train $MLP --threads 1 --stages 2 --out r
  says "at least one thread for each of the 2 stages, found 1"
  for wrong in 0 33 two -1; do
    fails 2 train $MLP --stages "$wrong" --out r
    says "--stages expects 'auto' or a whole number from 1 to 32, found '$wrong'"
  done
  fails 2 train $MLP --stages 2 --schedule-stages gpip --out r
  says "found 'gpip'; did you mean 'gpipe'?"
  cut "" ", stage: 1"
  fails 2 train --model cut.yaml --threads 2 --out r
  says "stage 1 cannot begin inside layers that are computed together with" "'conv1'"
  cut "" "" "" ", stage: 1" ", stage: 2"
  fails 2 train --model cut.yaml --threads 3 --out r
  says "stage 1 expects a layer with parameters, found none from 'flat' on"
  cut ", stage: 0, device: cuda"
  fails 1 train --model cut.yaml --out r
  says "found 'device'"
  [ ! -e r ]
  export HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so
  export HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
  [ -e "$HEDDLE_CUDA_MODULE" ] || skip "there is no stand-in of a GPU"
  fails 1 train $MLP --device cuda --stages 2 --out r
  says "--stages expects --device cpu"
}

@test "the summary shows each stage" {
  "$HEDDLE" summary --model mlp --threads 2 --stages 2 >out
  grep -Eq '^  0  flat to relu: 100,480 parameters, [0-9]+ % of the FLOPs, 1 thread, [0-9.]+ MB of weights' out
  grep -Eq '^  1  fc2 to fc2: 1,290 parameters' out
  "$HEDDLE" summary --model mlp --threads 2 --stages 2 --json | grep -q '"stages": \[{"first": "flat", "last": "relu"'
}

@test "layers that cost the same are cut into stages of as many" {
  printf 'model: even\ninput: [1, 8, 8]\nlayers:\n  - flat: {op: flatten}\n' >even.yaml
  printf '  - l%s: {op: linear, out: 64}\n' 1 2 3 4 5 6 >>even.yaml
  for wanted in "flat to l3,l4 to l6" "flat to l2,l3 to l4,l5 to l6"; do
    stages=$(tr ',' '\n' <<<"$wanted" | wc -l)
    "$HEDDLE" summary --model even.yaml --threads "$stages" --stages "$stages" >out
    [ "$(sed -n 's/^  [0-9]  \([a-z0-9]* to [a-z0-9]*\):.*/\1/p' out | paste -sd ,)" = "$wanted" ]
  done
}

@test "a rank of a stage that is killed: the others are gone, with its line, and the last step of all stages is saved" {
  start_ranks 2 --model mlp --stages 2
  kill -KILL "${PID[1]}"
  finish
  [ "$code" -eq 137 ]
  told "rank 1 (pid ${PID[1]} on .*) was killed by signal 9 (Killed) after step [0-9]*"
  no_rank_left
  saved=$(sed -n 's/.*saved step \([0-9]*\) in .*/\1/p' err | head -n 1)
  "$HEDDLE" train --resume r --max-steps "$((saved + 5))" --threads 2 --stages 2 --schedule-stages gpipe >out
  was=$(digest_of out)
  "$HEDDLE" train $ENDLESS --model mlp --max-steps "$((saved + 5))" --out whole >out
  [ "$(digest_of out)" = "$was" ]
}

@test "a profile shows what stages wait for" {
  "$HEDDLE" train $MLP --threads 2 --stages 2 --profile p.json --out r >out
  grep -q '"name": "wait for a stage", "cat": "wait", "args": {"for": "stage [01]"}' p.json
  grep -q 'wait for a stage' out
}
