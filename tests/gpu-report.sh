#!/bin/sh
# TAP: the report of a GPU machine, tried on the stub of NVIDIA's driver; and what is packed for such a machine.
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-gpu-report.XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset HEDDLE_CUDA_DRIVER HEDDLE_CUDA_MODULE
echo 1..8
cd "$folder" || exit 1
if HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only machine,first --out report.md >out 2>&1 &&
  grep -q '^first: passed' report.md && grep -q 'CUDA: 1 GPU can be used' report.md &&
  [ "$(sed -n 's/^    simplenet, c[a-z]*: \([0-9a-f]\{64\}\), first step after [0-9.]* s$/\1/p' report.md | sort |
  uniq -c | awk '{ print $1 }')" = 3 ]; then echo "ok 1 - a report with equal digests"
else echo "not ok 1 - a report with equal digests"; sed 's/^/# /' out report.md; fi
if HD_GPU=real HEDDLE_CUDA_DRIVER=/no/such/driver "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --out none.md >out \
  2>&1; then
  echo "not ok 2 - no GPU, no report"
elif grep -q '^gpu-report: heddle: --device cuda expects' out && [ ! -e none.md ]; then echo "ok 2 - no GPU, no report"
else echo "not ok 2 - no GPU, no report"; sed 's/^/# /' out; fi
if [ "$("$SRCDIR/tools/gpu-report" --list | awk '{ s += $2 } END { print (s > 0 && s <= 480) }')" = 1 ]; then
  echo "ok 3 - all steps within 8 minutes"
else echo "not ok 3 - all steps within 8 minutes"; fi
pack() { "$SRCDIR/tools/gpu-report" --pack --build "$BUILDDIR" --out pack --no-mnist >out 2>&1; }
# Whether a packed program starts where there is nothing but the pack and the C library: in an empty folder as root
# folder, or where that is not allowed by what the loader finds.
starts() { # PROGRAM OPTION
  if unshare -Ur true 2>/dev/null; then
    # shellcheck disable=SC2086
    timeout 2 unshare -Ur env -i LD_LIBRARY_PATH=/lib BUILDDIR=/ HD_GPU=stub "$(command -v chroot)" pack "/$1" ${2:-} \
      >started 2>&1
    code=$?
    head -n 5 started >>out
    [ "$code" -lt 125 ] && ! grep -q 'error while loading shared libraries' started
  else
    ! env -i LD_LIBRARY_PATH="$PWD/pack/lib" ldd "pack/$1" | awk '$3 ~ /^\// { print $3 } /not found/ { print }' |
      grep -v "^$PWD/pack/lib/" | grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so'
  fi
}
c_library() { ldd pack/heddle | grep -oE '/[^ ]*/(libc|libm|ld-linux[^/ ]*)\.so[^ ]*'; }
if [ ! -f "$BUILDDIR/.libs/heddle-cuda.so" ] || [ ! -f "$BUILDDIR/tests/op/test_kernels" ]; then
  echo "ok 4 # SKIP a pack: the module was not built"
elif pack && [ ! -e pack/data ] && [ -s pack/.libs/heddle-cuda.so ] && for file in $(c_library); do
  mkdir -p "pack$(dirname "$file")" && cp -L "$file" "pack$file" && cp -L "$file" pack/lib/
done && starts heddle --version && starts tests/op/test_kernels && starts tests/cuda/test_gpu_gradients &&
  starts tests/golden/test_golden && starts tests/bits/make_idx && starts tests/bits/make_data; then
  echo "ok 4 - a pack starts in an empty folder, $(grep MB out)"
else echo "not ok 4 - a pack"; sed 's/^/# /' out; fi
cat >python <<'END'
#!/bin/sh
case "$*" in
*nvidia*) echo /wheels/cublas/lib:/wheels/cudnn/lib ;;
*is_available*)
  case ":$LD_LIBRARY_PATH:" in *:/wheels/cublas/lib:/wheels/cudnn/lib:*) echo PyTorch 9 ;; *) exit 1 ;; esac ;;
*) printf 'eager 10\ngraph 40\n' ;;
esac
END
chmod +x python
if HD_GPU=stub PYTHON=./python "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only peers --out peers.md >out 2>&1 &&
  grep -Eq '^\| simplenet, batch 64 \| [0-9.]+ \| [0-9.]+ \| 10 \| 40 \| [0-9.]+ \| [0-9.]+ \|$' peers.md; then
  echo "ok 5 - beside PyTorch, of which a stub answers"
else echo "not ok 5 - beside PyTorch"; sed 's/^/# /' out peers.md; fi
cat >sanitizer <<'END'
#!/bin/sh
while [ "$1" != "$HEDDLE" ]; do shift; done
"$@" && echo "========= ERROR SUMMARY: ${ERRORS:-0} errors"
END
chmod +x sanitizer
export COMPUTE_SANITIZER=./sanitizer
if HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only sanitizer --out clean.md >out 2>&1 &&
  grep -q '^sanitizer: passed' clean.md && grep -q '8 passed, 0 failed' clean.md; then
  echo "ok 6 - a sanitizer that finds nothing"
else echo "not ok 6 - a sanitizer that finds nothing"; sed 's/^/# /' out clean.md; fi
if ! ERRORS=2 HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only sanitizer --out unclean.md >out 2>&1 &&
  grep -q '^sanitizer: FAILED' unclean.md && grep -q '0 passed, 8 failed' unclean.md; then echo "ok 7 - one that does"
else echo "not ok 7 - one that does"; sed 's/^/# /' out unclean.md; fi
cat >late <<'END'
#!/bin/sh
case "$*" in *nvidia*) exit 1 ;; esac
echo found
sleep 600
END
chmod +x late
if ! HD_GPU=stub PYTHON=./late GPU_REPORT_LIMIT=2 "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only peers \
  --out cut.md >out 2>&1 &&
  grep -q '^    found$' cut.md && grep -q '^peers: CUT at its limit' cut.md; then
  echo "ok 8 - a step that is cut keeps what it printed"
else echo "not ok 8 - a step that is cut"; sed 's/^/# /' out cut.md; fi
