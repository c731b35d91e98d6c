#!/bin/sh
# TAP: make python builds a wheel that carries its libraries, and pip installs it into an empty virtual environment.
. "$SRCDIR/tests/tap.sh"
python=${HEDDLE_PYTHON:-python3}
skip() { echo "1..0 # SKIP $1"; exit 0; }
for package in cffi numpy setuptools wheel auditwheel venv pip; do
  "$python" -c "import $package" 2>/dev/null || skip "expected Python with $package, found none"
done
PATH=$(dirname "$(command -v "$python")"):$PATH
command -v patchelf >/dev/null || skip "expected patchelf, found none"
[ -f "$BUILDDIR/.libs/libheddle.so" ] || skip "expected a shared library, found none"
nm -D "$BUILDDIR/.libs/libheddle.so" | grep -qE '__(asan|tsan)_init' && skip "expected a build without sanitizers"
make -C "$BUILDDIR" python PYTHON="$(command -v "$python")" >"$folder/out" 2>&1
result $? "make python builds a wheel" "$(cat "$folder/out")"
# cffi and NumPy are the surrounding environment's: nothing is fetched.
cat >"$folder/others.py" <<'EOF'
import cffi, numpy, os
print("\n".join({os.path.dirname(os.path.dirname(module.__file__)) for module in (cffi, numpy)}))
EOF
"$python" -m venv "$folder/venv" >"$folder/out" 2>&1 &&
  "$python" "$folder/others.py" >"$(echo "$folder"/venv/lib/python*/site-packages)/others.pth" &&
  "$folder/venv/bin/python" -m pip install -q --no-index --no-deps "$BUILDDIR"/python/dist/*.whl >"$folder/out" 2>&1
result $? "pip installs it" "$(cat "$folder/out")"
cd "$folder" || exit 1
unset HEDDLE_LIBRARY PYTHONPATH
cat >"$folder/train.py" <<'EOF'
import heddle
print(heddle.train("simplenet", "digits", max_steps=5, out="run").digest)
print(*{line.split()[-1] for line in open("/proc/self/maps") if "heddle" in line and ".so" in line}, sep="\n")
EOF
"$folder/venv/bin/python" "$folder/train.py" >"$folder/out" 2>&1
result $? "it trains" "$(cat "$folder/out")"
"$HEDDLE" train --model simplenet --data digits --max-steps 5 --out trained >"$folder/command" 2>&1
is_same() { [ "$(head -n 1 "$folder/out")" = "$(sed -n 's/^weights_sha256 *//p' "$folder/command")" ]; }
is_same
result $? "to the weights of the command" "$(cat "$folder/out" "$folder/command")"
grep -q 'heddle.libs/libhwloc' "$folder/out" && ! grep -q "$BUILDDIR" "$folder/out"
result $? "with the libraries that it carries" "$(cat "$folder/out")"
echo "1..$count"
