#!/bin/sh
# TAP: the digests of bits.sh on a GPU: that of the driver's stub, whose kernels are the GPU's sources, or with
# HD_GPU=real this machine's. Loader workers on top, and runs that change the device in the middle.
. "$SRCDIR/tests/bits/trained.sh"
. "$SRCDIR/tests/cuda/which_gpu.sh"
kernels=scalar extra="--device cuda" workers=0 ranks=1
if gpu=$(gpu_arch "$folder"); then
  for experiment in adamw sgd lion rmsprop nadam mixed norm shard shared rules wide several ended; do
    check_run $experiment "$gpu" 2 1 whole
  done
  check_run mixed "$gpu" 3 1 stopped
  check_run norm "$gpu" 1 1 killed
  extra="--device cuda --workers 2 --prefetch-factor 1" workers=2
  check_run adamw "$gpu" 2 1 whole
  for experiment in adamw rmsprop mixed norm; do
    for to in cuda cpu; do
      name="begun on the other device, ended on $to, $experiment"
      rm -rf "$folder/run"
      eval "wanted=\$${experiment}_digest options=\$$experiment"
      extra="--device $([ $to = cuda ] && echo cpu || echo cuda)"
      # shellcheck disable=SC2086
      begin_run stopped 2 1 $options 2>"$folder/err"
      extra="--device $to"
      (train --resume "$folder/run" --max-steps 10 >"$folder/json" 2>>"$folder/err")
      found=$(values isa steps weights_sha256)
      wanted="$([ $to = cuda ] && echo "$gpu" || echo scalar) 10 $wanted"
      [ "$found" = "$wanted" ]
      result $? "$name" "expected $wanted, found $found $(cat "$folder/err")"
    done
  done
  for device in cpu cuda; do
    "$HEDDLE" train --model "$SRCDIR/tests/bits/gpu_reuse.yaml" --data random:1x12x12 --max-steps 3 --workers 1 \
      --threads 1 --device $device --json --out "$folder/reuse-$device" >"$folder/json" 2>"$folder/err"
    found=$(values isa weights_sha256)
    [ "$found" = "$([ $device = cuda ] && echo "$gpu" || echo scalar) "\
"3ec21d25b33939324c8ddfd178013b12ae74b460722f060c40c527e39366d26c" ]
    result $? "a value where the samples were, $device" "found $found $(cat "$folder/err")"
  done
  # stored statistics with trained weights: those that fine_tune.sh has on a CPU
  model=$SRCDIR/tests/bits/fine_tune.yaml
  mkdir "$folder/labels"
  "$BUILDDIR/tests/bits/make_idx" "$folder/labels" 138 50
  same="--model $model --data $folder/labels --batch 32 --seed 7 --lr 0.01 --json"
  # shellcheck disable=SC2086
  "$HEDDLE" train $same --epochs 2 --out "$folder/first" >"$folder/json" 2>"$folder/err"
  # shellcheck disable=SC2086
  "$HEDDLE" train $same --init "$folder/first/last/model.safetensors" --head auto --epochs 3 --freeze '*' \
    --unfreeze 'bn*.weight@1' --device cuda --out "$folder/tuned" >"$folder/json" 2>"$folder/err"
  found=$(values isa weights_sha256)
  [ "$found" = "$gpu 2879cd68981fdf854d761259c8fcdfb3c953eaf3e40f1e4299500a13caa57c46" ]
  result $? "weights of norms with stored statistics" "found $found $(cat "$folder/err")"
else
  result skip "a GPU: $gpu"
fi
echo "1..$count"
