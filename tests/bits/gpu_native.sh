#!/bin/sh
# TAP: --arithmetic native on a GPU, by default that of the stubs of the driver and for cuBLAS and cuDNN, with
# HD_GPU=real the machine's: runs repeat bit for bit, losses stay close to those of the portable arithmetic, in every
# precision; and the libraries really computed.
. "$SRCDIR/tests/bits/trained.sh"
. "$SRCDIR/tests/cuda/which_gpu.sh"
if [ "${HD_GPU:-stub}" = real ]; then there=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU'); else there=2; fi
STUB_CUDA_GPUS=$there
export STUB_CUDA_GPUS

# near WANTED FOUND BOUND: within the bound, relatively.
near() { awk -v a="$1" -v b="$2" -v bound="$3" 'BEGIN {
  if (a + 0 != a || b + 0 != b) exit 1
  d = a > b ? a - b : b - a; exit !(d <= bound * a)
}'; }

run() { # OPTIONS...: leaves $loss, $digest, $library, $said
  rm -rf "$folder/run" "$folder/said"
  (STUB_CUDA_SAY=$folder/said; export STUB_CUDA_SAY; train --out "$folder/run" "$@" >"$folder/json" 2>"$folder/err")
  loss=$(value train_loss "$folder/json") digest=$(value weights_sha256 "$folder/json") \
    library=$(value library "$folder/json")
  said=$(cat "$folder/said" 2>/dev/null)
}

# asked KIND: whether the libraries were called for any such; those of the machine do not report it.
asked() { [ "${HD_GPU:-stub}" = real ] || echo "$said" | grep -Eq "$1 [1-9]"; }

check() { # NAME BOUND KIND WANTED_LOSS OPTIONS...
  name=$1 bound=$2 kind=$3 wanted=$4
  shift 4
  run "$@"
  first="$digest $loss"
  run "$@"
  if [ "$digest $loss" = "$first" ] && near "$wanted" "$loss" "$bound" && asked "$kind" && [ -n "$library" ]; then
    result pass "$name"
  else
    result fail "$name" "twice the digest and a loss near $wanted, $kind, found $first, $digest $loss, $library, "\
"$said $(cat "$folder/err")"
  fi
}

if ! gpu=$(gpu_arch "$folder"); then
  result skip "a GPU: $gpu"
elif ! "$HEDDLE" train --device cuda --arithmetic native --model simplenet --max-steps 1 --out "$folder/probe" \
  >/dev/null 2>"$folder/err"; then
  result skip "the GPU's libraries: $(cat "$folder/err")"
else
  if [ "$there" -ge 2 ]; then
    several="--model simplenet --optimizer sgd --lr 0.02 --momentum 0.9"
    # shellcheck disable=SC2086
    run $several
    wanted=$loss by=tree
    [ ! -e "$BUILDDIR/.libs/heddle-nccl.so" ] || [ "${HD_GPU:-stub}" = real ] || by=NCCL
    for layout in "cuda:0,1" "cuda --procs 2"; do
      # shellcheck disable=SC2086
      check "simplenet in TF32 on $layout" 0.001 tf32 "$wanted" $several --device $layout --arithmetic native \
        --precision tf32
      sums=$(value gpu_sums "$folder/json")
      case $sums in "$by"*) : ;; *) [ "${HD_GPU:-stub}" = real ] ;; esac
      if [ $? = 0 ] && [ -n "$sums" ]; then result pass "gradients of two GPUs are added by $sums"
      else result fail "gradients of two GPUs are added by $by" "found '$sums'"; fi
    done
  fi
  [ -z "${HD_MODELS:-}" ] || { echo "1..$count"; exit 0; } # as tools/gpu-report asks
  for model in cnn simplenet "$SRCDIR/tests/bits/mixed.yaml" "$SRCDIR/tests/bits/norm.yaml" \
    "$SRCDIR/tests/bits/shared.yaml" \
    "$SRCDIR/tests/bits/upsampled.yaml"; do
    options="--model $model --optimizer sgd --lr 0.02 --momentum 0.9 --max-steps 5"
    net=$(basename "$model" .yaml)
    # shellcheck disable=SC2086
    run $options
    wanted=$loss
    # shellcheck disable=SC2086
    case $net in
    cnn | mixed | norm | upsampled)
      check "$net in TF32" 0.001 tf32 "$wanted" $options --device cuda --arithmetic native --precision tf32 ;;
    esac
    # shellcheck disable=SC2086
    case $net in
    cnn | mixed | simplenet | shared)
      check "$net in bfloat16" 0.01 bf16 "$wanted" $options --device cuda --arithmetic native --precision bf16 ;;
    esac
  done
  large="--model cnn --batch 128 --lr 0.01 --max-steps 2" # with the fewer products of tiles, too
  # shellcheck disable=SC2086
  run $large
  # shellcheck disable=SC2086
  check "large convolutions of cnn in float32" 0.00001 convolutions "$loss" $large --device cuda --arithmetic native
  sed 's/out: 1400/out: 2800/' "$SRCDIR/tests/bits/native.yaml" >"$folder/wide.yaml"
  wide="--model $folder/wide.yaml --lr 0.01 --max-steps 2"
  # shellcheck disable=SC2086
  run $wide
  # shellcheck disable=SC2086
  check "wide linear layers in float32" 0.00001 products "$loss" $wide --device cuda --arithmetic native
  run --model cnn --device cuda --arithmetic native --precision tf32 --max-steps 4
  whole=$digest
  (train --model cnn --device cuda --arithmetic native --precision tf32 --max-steps 2 --out "$folder/half" >/dev/null \
    2>"$folder/err")
  (train --resume "$folder/half" --device cuda --max-steps 4 >"$folder/json" 2>>"$folder/err")
  if [ -n "$whole" ] && [ "$(value weights_sha256 "$folder/json")" = "$whole" ]; then
    result pass "stopped and resumed: the same bits"
  else
    result fail "stopped and resumed: the same bits" \
      "$whole, found $(value weights_sha256 "$folder/json") $(cat "$folder/err")"
  fi
fi
echo "1..$count"
