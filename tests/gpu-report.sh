#!/bin/sh
# TAP: the report of a GPU machine, tried on the stub of NVIDIA's driver; and what is packed for such a machine.
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-gpu-report.XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset HEDDLE_CUDA_DRIVER HEDDLE_CUDA_MODULE
echo 1..7
cd "$folder" || exit 1
if HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only machine,first --out report.md >out 2>&1 &&
  grep -q '^## first: passed' report.md && grep -q 'CUDA: 1 GPU can be used' report.md &&
  [ "$(grep -c 'GPU \([0-9a-f]\{64\}\), CPU \1' report.md)" = 1 ]; then echo "ok 1 - a report with equal digests"
else echo "not ok 1 - a report with equal digests"; sed 's/^/# /' out report.md; fi
if HD_GPU=real HEDDLE_CUDA_DRIVER=/no/such/driver "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --out none.md >out 2>&1; then
  echo "not ok 2 - no GPU, no report"
elif grep -q '^gpu-report: heddle: --device cuda expects' out && [ ! -e none.md ]; then echo "ok 2 - no GPU, no report"
else echo "not ok 2 - no GPU, no report"; sed 's/^/# /' out; fi
if [ "$("$SRCDIR/tools/gpu-report" --list | awk '{ s += $2 } END { print (s > 0 && s <= 480) }')" = 1 ]; then echo "ok 3 - all steps within 8 minutes"
else echo "not ok 3 - all steps within 8 minutes"; fi
if [ ! -f "$BUILDDIR/.libs/heddle-cuda.so" ] || [ ! -f "$BUILDDIR/tests/op/test_kernels" ]; then echo "ok 4 # SKIP a pack: the module was not built"
elif "$SRCDIR/tools/gpu-report" --pack --build "$BUILDDIR" --out pack >out 2>&1 && env -i LD_LIBRARY_PATH=pack/lib pack/heddle --version >>out &&
  [ -s pack/.libs/heddle-cuda.so ] && ! LD_LIBRARY_PATH=pack/lib ldd pack/heddle | grep 'not found'; then echo "ok 4 - a pack, $(tail -n 2 out | head -n 1)"
else echo "not ok 4 - a pack"; sed 's/^/# /' out; fi
cat >python <<'END'
#!/bin/sh
case "$*" in
*nvidia*) echo /wheels/cublas/lib:/wheels/cudnn/lib ;;
*is_available*) case ":$LD_LIBRARY_PATH:" in *:/wheels/cublas/lib:/wheels/cudnn/lib:*) echo PyTorch 9 ;; *) exit 1 ;; esac ;;
*) printf 'eager 10\ngraph 40\n' ;;
esac
END
chmod +x python
if HD_GPU=stub PYTHON=./python "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only peers --out peers.md >out 2>&1 &&
  grep -Eq '^\| simplenet, batch 64 \| [0-9.]+ \| [0-9.]+ \| 10 \| 40 \| [0-9.]+ \| [0-9.]+ \|$' peers.md; then echo "ok 5 - beside PyTorch, of which a stub answers"
else echo "not ok 5 - beside PyTorch"; sed 's/^/# /' out peers.md; fi
cat >sanitizer <<'END'
#!/bin/sh
while [ "$1" != "$HEDDLE" ]; do shift; done
"$@" && echo "========= ERROR SUMMARY: ${ERRORS:-0} errors"
END
chmod +x sanitizer
export COMPUTE_SANITIZER=./sanitizer
if HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only sanitizer --out clean.md >out 2>&1 &&
  grep -q '^## sanitizer: passed' clean.md && grep -q '4 passed, 0 failed' clean.md; then echo "ok 6 - a sanitizer that finds nothing"
else echo "not ok 6 - a sanitizer that finds nothing"; sed 's/^/# /' out clean.md; fi
if ! ERRORS=2 HD_GPU=stub "$SRCDIR/tools/gpu-report" --build "$BUILDDIR" --only sanitizer --out unclean.md >out 2>&1 &&
  grep -q '^## sanitizer: FAILED' unclean.md && grep -q '0 passed, 4 failed' unclean.md; then echo "ok 7 - one that does"
else echo "not ok 7 - one that does"; sed 's/^/# /' out unclean.md; fi
