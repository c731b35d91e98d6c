#!/bin/sh
# TAP: NVIDIA's compute-sanitizer over three steps of cnn on the machine's GPU, with HD_GPU=real: no access out of
# bounds, no leak, no race, no barrier that some threads miss, no read of uninitialized memory. COMPUTE_SANITIZER names
# it.
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
echo 1..4
count=0
for tool in "memcheck --leak-check full" racecheck synccheck initcheck; do
  count=$((count + 1))
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  if "$sanitizer" --tool $tool --error-exitcode 9 "$HEDDLE" train --device cuda --model cnn --batch 8 --max-steps 3 \
    --data random:1x28x28 --out "$folder/run" >"$folder/out" 2>&1 &&
    grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$folder/out"; then
    echo "ok $count - $tool"
  else
    echo "not ok $count - $tool"
    tail -n 20 "$folder/out" | sed 's/^/# /'
  fi
done
