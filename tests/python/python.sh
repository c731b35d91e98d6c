#!/bin/sh
# TAP: the Python package, with the library of this build: training, data sets, errors, Ctrl-C, documentation; and with
# scikit-learn and PyTorch where they are.
skip() { echo "1..0 # SKIP $1"; exit 0; }
why='no python3' python=
for each in ${HEDDLE_PYTHON:-python3 /usr/bin/python3}; do
  command -v "$each" >/dev/null || continue
  if why=$("$each" -c 'import cffi, numpy, sys; assert sys.version_info >= (3, 9), sys.version' 2>&1); then
    python=$each
    break
  fi
done
[ -n "$python" ] || skip "expected Python 3.9 with cffi and numpy, found $(echo "$why" | tail -n 1)"
library=$BUILDDIR/.libs/libheddle.so
[ -f "$library" ] || skip "expected a shared library, found none"
if nm -D "$library" | grep -qE '__(asan|tsan)_init'; then skip "expected a build without sanitizers, found one"; fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-test.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cp -r "$SRCDIR/python/heddle" "$folder/heddle"
"$python" "$SRCDIR/python/make_ffi.py" "$SRCDIR/include" "$folder/heddle/_ffi.py" "${CC:-cc}" >"$folder/out" 2>&1
if [ ! -s "$folder/heddle/_ffi.py" ]; then
  echo "1..1"; echo "not ok 1 - the declarations are made from the headers"; sed 's/^/# /' "$folder/out"; exit 0
fi
HEDDLE_LIBRARY=$library HEDDLE_PROGRAM=$HEDDLE PYTHONPATH=$folder:$SRCDIR/tests/python PYTHONDONTWRITEBYTECODE=1
TMPDIR=$folder HOME=$folder
export HEDDLE_LIBRARY HEDDLE_PROGRAM PYTHONPATH PYTHONDONTWRITEBYTECODE TMPDIR HOME
timeout 900 "$python" "$SRCDIR/tests/python/tap.py" \
  ${TESTS_PYTHON:-run_tests option_tests data_tests error_tests stop_tests fork_tests weight_tests loss_tests \
  mask_tests heads_tests watch_tests lr_tests notebook_tests evidence_tests program_tests doc_tests sklearn_tests \
  mlp_tests mlp_suite_tests torch_tests gpt_tests encoder_tests recurrent_tests}
