#!/bin/sh
# TAP: NVIDIA's compute-sanitizer over three steps of cnn on the machine's GPU, with HD_GPU=real: no access out of
# bounds, no leak, no race, no barrier that some threads miss, no read of uninitialized memory; and no race over two
# steps of networks of other kernels, with clipping. COMPUTE_SANITIZER names it.
. "$SRCDIR/tests/cuda/which_gpu.sh"
sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
[ "${HD_GPU:-stub}" = real ] || [ -n "${COMPUTE_SANITIZER:-}" ] || {
  echo "1..0 # SKIP the stub of a GPU has other checks"
  exit 0
}
command -v "$sanitizer" >/dev/null || { echo "1..0 # SKIP compute-sanitizer is not there"; exit 0; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-sanitizer.XXXXXX")
trap 'rm -rf "$folder"' EXIT
gpu_arch "$folder" >"$folder/why" || { echo "1..0 # SKIP a GPU: $(cat "$folder/why")"; exit 0; }
echo 1..8
count=0
check() { # TOOL OPTIONS of heddle train...
  tool=$1
  shift
  count=$((count + 1))
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  if "$sanitizer" --tool $tool --error-exitcode 9 "$HEDDLE" train --device cuda --data random:1x28x28 "$@" \
    --out "$folder/run" >"$folder/out" 2>&1 &&
    grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$folder/out"; then
    echo "ok $count - $tool, $*"
  else
    echo "not ok $count - $tool, $*"
    tail -n 20 "$folder/out" | sed 's/^/# /'
  fi
}
for tool in "memcheck --leak-check full" racecheck synccheck initcheck; do
  check "$tool" --model cnn --batch 8 --max-steps 3
done
for network in mixed norm tiles shard_norms; do
  check racecheck --model "$SRCDIR/tests/bits/$network.yaml" --batch 40 --shards 4 --max-steps 2 --clip-grad-norm 0.5
done
