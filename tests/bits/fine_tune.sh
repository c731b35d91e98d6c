#!/bin/sh
# Fine-tuning: a new head, frozen layers and norms, a second stage, fixed views, each with a committed digest, the same
# over threads, accumulation, ranks, workers, instruction sets and resuming, and whether or not what frozen layers make
# of samples is kept.
. "$SRCDIR/tests/tap.sh"

export HEDDLE_CACHE=$folder/cache
mkdir "$folder/labels"
"$BUILDDIR/tests/bits/make_idx" "$folder/labels" 138 50 || { echo "Bail out! no data"; exit 1; }
model=$SRCDIR/tests/bits/fine_tune.yaml

train() { # OPTIONS...
  "$HEDDLE" train --model "$model" --data "$folder/labels" --batch 32 --seed 7 --json "$@" >"$folder/json" \
    2>"$folder/err"
}

train --epochs 2 --lr 0.01 --out "$folder/first"
[ "$(values weights_sha256)" = 0d6b5541ede9ea9c2aaa3731dcea7fbad52fa4f7fbf7691b128c3165bbb0f015 ]
result $? "the network to start from" "found $(values weights_sha256) $(cat "$folder/err")"
weights=$folder/first/last/model.safetensors

# tune OUT OPTIONS...: three epochs from those weights, or on from OUT.
tune() {
  out=$1
  shift
  if [ -d "$out" ]; then train --resume "$out" "$@"
  else train --init "$weights" --head auto --epochs 3 --lr 0.01 --out "$out" "$@"; fi
}

# check NAME DIGEST OPTIONS...: on all layouts, and resumed from the middle of each epoch.
check() {
  name=$1 wanted=$2
  shift 2
  while read -r threads ranks workers accumulate kept; do
    rm -rf "$folder/run"
    layout="--threads $threads --procs $ranks --workers $workers --accumulate $accumulate"
    # shellcheck disable=SC2086
    tune "$folder/run" $layout --keep-features $kept "$@" </dev/null
    found=$(values threads ranks workers accumulate weights_sha256)
    [ "$found" = "$threads $ranks $workers $accumulate $wanted" ]
    result $? "$name, $layout, features kept: $kept" "expected $wanted, found $found $(cat "$folder/err")"
  done <<LAYOUTS
1 1 0 1 auto
3 1 0 4 auto
2 2 0 1 auto
2 1 2 1 auto
2 1 0 1 no
2 1 0 1 disk
1 2 0 1 disk
1 2 0 1 no
1 1 2 1 no
LAYOUTS
  steps=$(values steps)
  for isa in reference scalar avx2 avx512 neon; do
    rm -rf "$folder/run"
    if ! HEDDLE_ISA=$isa tune "$folder/run" "$@" && grep -q HEDDLE_ISA "$folder/err"; then
      result skip "$isa: $(cat "$folder/err")"
      continue
    fi
    [ "$(values isa weights_sha256)" = "$isa $wanted" ]
    result $? "$name, $isa" "expected $isa $wanted, found $(values isa weights_sha256) $(cat "$folder/err")"
  done
  for step in 3 5 7 12; do
    rm -rf "$folder/run"
    tune "$folder/run" --max-steps $step "$@" && tune "$folder/run" --max-steps 15
    [ "$(values steps weights_sha256)" = "$steps $wanted" ]
    result $? "$name, resumed after step $step" \
      "expected $steps $wanted, found $(values steps weights_sha256) $(cat "$folder/err")"
  done
}

# The constants. A change of one changes every user's results: the commit must give the reason.
check "a new head" 9c4464a5416a1bc75893356eb7f9f3464cc92788f938164c2f15b26a41cb91bf
check "all but the head" 5934b8300b64a73c39394cc41adbb826d19acb9075c778eb87481048666aa63d --freeze '*'
check "the first block" a0782f8f2b5580d51d64038835efb7879b0d7503d3064ed5bf69713298988d7d --freeze 'conv[123]*,bn[123]*'
check "one way of the block, and the first layer" \
  20499bd54cb6f1885bb5132395bb4d4dbc634a6b7e423d5a02d5a49854b13dff \
  --freeze 'conv[13]*,bn[13]*' --optimizer sgd --momentum 0.9
check "norms alone" 2b09b027686ad4c155381add4492e635b7913665a585b19659209b00d102a058 --freeze 'bn*'
flip='[{random_crop: {size: 28, padding: 2}}, horizontal_flip, to_float, normalise]'
check "two views of each sample" 40d0655d6e9a1c019e98c4443a259e600249bec7a0bb2e9441b891bdc9824226 \
  --freeze '*' --transforms "$flip" --keep-views 2 --val-split 0.2
check "a second stage" 11c94f1be3caa4907f390ba32d52b6ded9f6c52736985f309b0fb0c24ed9eaf5 \
  --freeze '*' --unfreeze 'conv4.*,bn4.*,fc1.*@1' --lr-scale 0.3
check "a second stage of biases alone, with stored statistics" \
  4ebf6da6bf8bf22714a6d67e4370dfdf81fd8eb92c5c974d271edd6f1dbb1df4 --freeze '*' --unfreeze '*.bias@1'
check "a second stage of the weights of norms, with stored statistics" \
  2879cd68981fdf854d761259c8fcdfb3c953eaf3e40f1e4299500a13caa57c46 --freeze '*' --unfreeze 'bn*.weight@1'
check "a second stage of all layers" 20b820ed2dc8826f17362bf4038a8c57b8530079a9815d33a631132b218ca882 \
  --freeze '*' --unfreeze '*@2' --optimizer sgd --momentum 0.9 --ema 0.9
# What lies where in packed weights differs between the stages of such a run, if features are kept.
model=$SRCDIR/tests/bits/fine_tune_pools.yaml wanted=59b109f79caa5ffacec47f7e60a774a969a8a039933819eca07aee535b8d8658
for kept in auto no disk; do
  for step in 10 7; do
    rm -rf "$folder/run"
    train --freeze 'conv1.*' --unfreeze 'conv1.*@1' --epochs 2 --lr 0.01 --keep-features $kept --max-steps $step \
      --out "$folder/run"
    [ $step = 10 ] || train --resume "$folder/run" --max-steps 10
    found=$(values steps weights_sha256)
    [ "$found" = "10 $wanted" ]
    result $? "pools behind frozen layers, features kept: $kept, ended after step $step" \
      "expected 10 $wanted, found $found $(cat "$folder/err")"
  done
done
echo "1..$count"
