#!/bin/sh
# TAP: the examples run, do what they document, and are short.
samples="256 64"
. "$SRCDIR/tests/examples_lib.sh"

short() { [ "$(wc -l <"$1")" -lt 60 ] && ! grep -q '.\{121\}' "$1"; }
for source in "$SRCDIR"/examples/*.c; do
  check "${source##*/} has fewer than 60 lines" short "$source"
done

run() { "$BUILDDIR/examples/$1" data "$2" >"$1.out" 2>&1; }
shows() { grep -Eq "$2" "$1.out"; }

run train_cnn 20
result $? "train_cnn runs" "$(cat train_cnn.out)"
check "it shows its loss, its accuracy and a digest" shows train_cnn '^step 20: loss [0-9]+\.[0-9]+$'
check "and saves" test -f runs/cnn-1/last/model.safetensors

"$HEDDLE" train --model mlp --data data --max-steps 12 --out whole >whole.out 2>&1
run own_loop 12
result $? "own_loop runs" "$(cat own_loop.out)"
check "its curve has a line every ten steps" test "$(grep -c '|=' own_loop.out)" = 2
check "so has loss.csv" test "$(wc -l <loss.csv)" = 3
check "its weights are those of one undivided run" test \
  "$(sed -n 's/^weights_sha256 //p' own_loop.out)" = "$("$HEDDLE" digest whole)"

run own_network 10
result $? "own_network runs" "$(cat own_network.out)"
check "it counts parameters" shows own_network '^6898 parameters'
check "its checkpoint holds its network" "$HEDDLE" eval runs/blocks-1 --data data

run custom_op 10
result $? "custom_op runs" "$(cat custom_op.out)"
check "its operation stands beside the built-in ones" shows custom_op '^squared: +test accuracy [0-9.]+ %'
lacks=$("$HEDDLE" eval runs/squared-1 --data data 2>&1 | grep -c "'squared_relu'")
check "other programs report the missing operation" test "$lacks" = 1

"$BUILDDIR/examples/own_data" 300 >own_data.out 2>&1
result $? "own_data runs" "$(cat own_data.out)"
check "it learns its samples" shows own_data '^test accuracy (9[0-9]|100)'

"$BUILDDIR/examples/inference" runs/cnn-1 runs/cnn-1/wrong.png >inference.out 2>&1
result $? "inference runs" "$(cat inference.out)"
check "it predicts what is in memory" shows inference '^a seven drawn by the program: [0-9] \('
check "and what is in a file" shows inference '^runs/cnn-1/wrong.png: [0-9] \('
"$HEDDLE" train --model mlp --data random:1x20x20 --max-steps 2 --out runs/other >other.out 2>&1
"$BUILDDIR/examples/inference" runs/other >inference.out 2>&1
check "a run on other pictures does not get the drawn digit" \
  shows inference "^the program's seven has 1x28x28 pixels, the run reads 1x20x20"

seq 1 900 >numbers.txt
"$HEDDLE" train --model gpt-nano --data numbers.txt --max-steps 2 --batch 4 --out runs/text >text.out 2>&1
"$BUILDDIR/examples/generate" runs/text 12 >generate.out 2>&1
result $? "generate runs" "$(cat generate.out)"
"$HEDDLE" generate runs/text --prompt 12 --length 300 --temperature 0.8 --top-p 0.95 --seed 7 >command.out 2>&1
check "and writes the text of the command" cmp -n 302 generate.out command.out

run batches 0
lone=$(cat batches.out)
run batches 3
result $? "batches runs" "$(cat batches.out)"
check "most samples are nearest to their class" shows batches '^([3-5][0-9]|6[0-4]) test samples'
check "with workers as without" test "$(cat batches.out)" = "$lone"

run set_seed 5
result $? "set_seed runs" "$(cat set_seed.out)"
check "one seed, one result" shows set_seed 'the same seed gives the same weights, another seed others'

"$BUILDDIR/examples/squares" 10000 >squares.out 2>&1
result $? "squares runs" "$(cat squares.out)"
check "it sums ten thousand squares" shows squares ' is 333283335000$'
for terms in 0 -1 3000001 9x 99999999999999999999; do
  "$BUILDDIR/examples/squares" "$terms" >count.out 2>&1
  check "a count of $terms is refused by a line of usage" test "$? $(grep -c '^usage: squares' count.out)" = "2 1"
done

"$BUILDDIR/examples/files" "$SRCDIR/examples/files.c" none "$SRCDIR/README.md" >files.out 2>&1
result $? "files runs" "$(cat files.out)"
check "each file has its line" test "$(wc -l <files.out)" = 3
check "the one that is absent is reported" shows files "^none: task 1 \('count_lines'\): expected a file"

"$HEDDLE" launch -n 3 -- "$BUILDDIR/examples/allreduce" 10 >allreduce.out 2>&1
result $? "allreduce runs" "$(cat allreduce.out)"
check "three ranks have one mean" shows allreduce '^the mean of 30 numbers on 3 ranks is 14.5, the token says 3$'
RANK=0 WORLD_SIZE=2 "$BUILDDIR/examples/allreduce" 10 >first.out 2>&1 &
RANK=1 WORLD_SIZE=2 "$BUILDDIR/examples/allreduce" 10 >second.out 2>&1 && wait $!
result $? "allreduce runs by RANK and WORLD_SIZE" "$(cat first.out)"
check "two ranks have one, too" shows first '^the mean of 20 numbers on 2 ranks is 9.5, the token says 1$'
if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent /bin/false -n 3 "$BUILDDIR/examples/allreduce" 10 \
    >mpirun.out 2>&1
  result $? "allreduce runs by mpirun" "$(cat mpirun.out)"
  check "with the same mean" shows mpirun '^the mean of 30 numbers on 3 ranks is 14.5, the token says 3$'
fi
env -u RANK "$BUILDDIR/examples/allreduce" >alone.out 2>&1
check "alone it prints how to start it" shows alone 'heddle launch -n N -- PROGRAM'

"$HEDDLE" launch -n 3 -- "$BUILDDIR/examples/parameter_server" 1000 >parameter_server.out 2>&1
result $? "parameter_server runs" "$(cat parameter_server.out)"
check "two workers find the function" shows parameter_server '^after 2000 pushes y = 3.00 x0 -2.00 x1 \+1.00$'

"$BUILDDIR/examples/ddp" data >ddp.out 2>&1
result $? "ddp starts itself as four ranks" "$(cat ddp.out)"
say=$(grep -c '^Rank [0123], Epoch 1, Batch 0, Loss' ddp.out)
losses=$(sed -n 's/^Rank .* Batch 0, //p' ddp.out | sort -u | wc -l)
check "all of them print the same losses" test "$say $losses" = "4 1"
"$HEDDLE" train --model simplenet --data data --epochs 1 --batch 256 --lr 0.01 --optimizer sgd --threads 1 --out alone \
  >alone.out 2>&1
check "and end in the weights of one process" shows ddp "^weights_sha256 $(sed -n 's/^weights_sha256 *//p' alone.out)\$"

"$BUILDDIR/examples/ddp" data >again.out 2>&1
result $? "ddp runs a second time" "$(cat again.out)"
first=$(sed -n 's/^saved in //p' ddp.out) second=$(sed -n 's/^saved in //p' again.out)
check "and saves in another folder" test "$first" != "$second" -a -e "$first/last" -a -e "$second/last"

run devices cpu
result $? "devices runs" "$(cat devices.out)"
cpu=$(sed -n 's/^20 steps, the last on cpu: //p' devices.out) corner=$(grep '^the product' devices.out)
stubs=$BUILDDIR/tests/cuda/.libs
HEDDLE_CUDA_DRIVER=$stubs/driver_stub.so HEDDLE_CUDA_MODULE=$stubs/module_stub.so run devices cuda
result $? "devices runs on a GPU" "$(cat devices.out)"
check "it names the GPU" shows devices '^cuda:0 is Stub GPU$'
check "a run that goes on there has the same weights" shows devices "^20 steps, the last on cuda:0: $cpu\$"
check "and the product the same corner" shows devices "^$corner\$"

"$BUILDDIR/examples/inference" none >missing.out 2>&1
check "a failure is reported in the line of the library" test "$(wc -l <missing.out)" = 1
"$BUILDDIR/examples/inference" >usage.out 2>&1
check "inference without arguments says its usage" test "$? $(grep -c '^usage: inference RUN' usage.out)" = "2 1"
echo "1..$count"
