#!/bin/sh
# TAP: make python builds a wheel that is the whole of heddle and carries its libraries; pip installs it into an empty
# virtual environment. pip builds one of the tree too, and the tree's archive has what that needs.
. "$SRCDIR/tests/tap.sh"
python=${HEDDLE_PYTHON:-python3}
skip() { echo "1..0 # SKIP $1"; exit 0; }
for package in cffi numpy setuptools auditwheel venv pip; do
  "$python" -c "import $package" 2>/dev/null || skip "expected Python with $package, found none"
done
"$python" "$SRCDIR/python/make_wheel.py" --check 2>"$folder/out" || skip "$(cat "$folder/out")"
[ -f "$BUILDDIR/.libs/libheddle.so" ] || skip "expected a shared library, found none"
nm -D "$BUILDDIR/.libs/libheddle.so" | grep -qE '__(asan|tsan)_init' && skip "expected a build without sanitizers"
python=$(command -v "$python")
make -C "$BUILDDIR" python PYTHON="$python" >"$folder/out" 2>&1
result $? "make python builds a wheel" "$(cat "$folder/out")"
grep -q '^  built with: ' "$folder/out"
result $? "and says what it was built with" "$(cat "$folder/out")"
# cffi and NumPy are the surrounding environment's: nothing is fetched.
cat >"$folder/others.py" <<'END'
import cffi, numpy, os
print("\n".join({os.path.dirname(os.path.dirname(module.__file__)) for module in (cffi, numpy)}))
END
"$python" -m venv "$folder/venv" >"$folder/out" 2>&1 &&
  "$python" "$folder/others.py" >"$(echo "$folder"/venv/lib/python*/site-packages)/others.pth" &&
  "$folder/venv/bin/python" -m pip install -q --no-index --no-deps "$BUILDDIR"/python/dist/*.whl >"$folder/out" 2>&1
result $? "pip installs it" "$(cat "$folder/out")"
cd "$folder" || exit 1
unset HEDDLE_LIBRARY HEDDLE_PROGRAM PYTHONPATH
cat >"$folder/train.py" <<'END'
import heddle
print(heddle.train("simplenet", "digits", max_steps=5, out="run").digest)
heddle.doctor(threads=1)
print(*{line.split()[-1] for line in open("/proc/self/maps") if "heddle" in line and ".so" in line}, sep="\n")
info = heddle.build_info()
print("built", ", ".join(info["built_with"]))
print("left", ", ".join(info["left_out"]))
print("program", info["program"])
END
"$folder/venv/bin/python" "$folder/train.py" >"$folder/out" 2>&1
result $? "it trains" "$(cat "$folder/out")"
"$HEDDLE" train --model simplenet --data digits --max-steps 5 --out trained >"$folder/command" 2>&1
sha_of() { sed -n 's/^weights_sha256 *//p' "$1"; }
[ -n "$(sha_of "$folder/command")" ] && [ "$(head -n 1 "$folder/out")" = "$(sha_of "$folder/command")" ]
result $? "to the weights of the command" "$(cat "$folder/out" "$folder/command")"
grep -q 'heddle.libs/libhwloc' "$folder/out" && grep -q 'heddle/libheddle-tools.so.0' "$folder/out" &&
  ! grep -q "$BUILDDIR" "$folder/out"
result $? "with the libraries that it carries" "$(cat "$folder/out")"
for format in '.npz files' 'JPEG pictures' 'ONNX files'; do
  "$HEDDLE" --version | grep -q "^built with .*$format" && word=built || word=left
  grep -q "^$word .*$format" "$folder/out" || echo "$format: expected '$word'"
done >"$folder/formats"
[ ! -s "$folder/formats" ] && grep -q '^left .*NVIDIA GPUs (an installation), runs over several hosts' "$folder/out" &&
  ! grep -q '^built .*hosts' "$folder/out"
result $? "and says what it has" "$(cat "$folder/formats" "$folder/out")"

# The program of the wheel, as the command heddle and as python -m heddle.
mine=$folder/venv/bin/heddle
"$mine" train --model simplenet --data digits --max-steps 5 --procs 2 --out own >"$folder/command" 2>&1
result $? "the wheel's heddle trains, in two processes too" "$(cat "$folder/command")"
[ "$(sha_of "$folder/command")" = "$(head -n 1 "$folder/out")" ]
result $? "to the same weights" "$(cat "$folder/command" "$folder/out")"
"$mine" --version >"$folder/a" 2>&1; "$folder/venv/bin/python" -m heddle --version >"$folder/b" 2>&1
"$HEDDLE" --version >"$folder/c" 2>&1
cmp "$folder/a" "$folder/b" >"$folder/differ" 2>&1 && [ "$(head -n 1 "$folder/a")" = "$(head -n 1 "$folder/c")" ]
result $? "it is the program, and so is python -m heddle" "$(cat "$folder/a" "$folder/b")"
"$mine" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' >"$folder/commands"
bad=''
while read -r command; do
  "$mine" "$command" --help >"$folder/help" 2>&1 || bad="$bad $command"
done <"$folder/commands"
[ -z "$bad" ] && [ "$(wc -l <"$folder/commands")" -ge 20 ]
result $? "with all of its commands" "$bad $(cat "$folder/commands")"
"$mine" train --bacth 3 >"$folder/help" 2>&1
[ $? = 2 ] && [ "$(wc -l <"$folder/help")" = 1 ]
result $? "with its exit codes" "$(cat "$folder/help")"
"$mine" report run --output page.html >"$folder/help" 2>&1 && grep -q '</html>' page.html
result $? "and its pages" "$(cat "$folder/help")"
for file in $(find "$folder/venv/lib" -path '*heddle*' -name '*heddle*' -type f); do
  readelf -d "$file" 2>/dev/null | grep -E 'RPATH|RUNPATH' | grep -F "$BUILDDIR"
done >"$folder/paths"
[ ! -s "$folder/paths" ]
result $? "no file looks into the build folder" "$(cat "$folder/paths")"

# Types for editors are the options.
types=$(find "$folder/venv/lib" -name _option_types.pyi)
[ -n "$types" ] && grep -q '^    lr: float | None' "$types" && "$python" -m py_compile "$types" 2>"$folder/help"
result $? "it has the types of its options" "$(cat "$folder/help")"

# pip builds the tree, and the tree's archive.
"$python" -m pip wheel -q --no-index --no-deps --no-build-isolation --config-settings "build-dir=$BUILDDIR" \
  -w "$folder/wheels" "$SRCDIR" >"$folder/help" 2>&1 &&
  ls "$folder"/wheels/heddle-*-py3-none-linux_*.whl >>"$folder/help"
result $? "pip builds a wheel of the tree" "$(cat "$folder/help")"
"$folder/venv/bin/python" -m pip install -q --no-index --no-deps --force-reinstall "$folder"/wheels/*.whl \
  >"$folder/help" 2>&1 &&
  "$mine" train --model simplenet --data digits --max-steps 5 --out again >"$folder/command" 2>&1
result $? "which pip installs" "$(cat "$folder/help" "$folder/command")"
[ "$(sha_of "$folder/command")" = "$(head -n 1 "$folder/out")" ]
result $? "and which trains to the same weights" "$(cat "$folder/command")"
(cd "$SRCDIR" && "$python" - "$folder" "$BUILDDIR" <<'END') >"$folder/help" 2>&1
import sys
sys.path.insert(0, "python")
import build_backend
print(build_backend.build_sdist(sys.argv[1], {"build-dir": sys.argv[2]}))
END
result $? "it packs an archive of the tree" "$(cat "$folder/help")"
tar -tzf "$folder"/heddle-*.tar.gz >"$folder/list" 2>"$folder/help"
grep -q '/PKG-INFO$' "$folder/list" && grep -q '/pyproject.toml$' "$folder/list" &&
  grep -q '/configure$' "$folder/list" && grep -q '/python/build_backend.py$' "$folder/list"
result $? "with what a build of it needs" "$(cat "$folder/list")"

# What is missing is asked for in one line.
cat >"$folder/lacking.py" <<'END'
import importlib.util, runpy, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "auditwheel" else found(name, *rest)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
END
"$python" "$folder/lacking.py" "$SRCDIR/python/make_wheel.py" --check >"$folder/help" 2>&1
[ $? = 1 ] && [ "$(wc -l <"$folder/help")" = 1 ] &&
  grep -q 'found no auditwheel; run .*pip install auditwheel$' "$folder/help"
result $? "make python asks for what is missing" "$(cat "$folder/help")"
echo "1..$count"
