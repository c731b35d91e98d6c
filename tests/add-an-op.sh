#!/bin/sh
# TAP: docs/add-an-op.md is enough to add an operation, docs/add-an-optimizer.md to add an optimizer and a schedule,
# docs/add-a-data-format.md to add a data format, docs/add-a-command.md to add a command. A copy of the tree gets one of
# each by the pages' rows, headers, rules and code, the first three under other names, and nothing else; it builds, the
# tests of gradients and updates find them, and a network trains with them to the bits of those that the pages show, on
# a file of the format to those of the same samples in NPY files. It is a separate build, of the reference kernels:
# minutes.
. "$SRCDIR/tests/tap.sh"
for tool in autoreconf automake libtoolize; do
  command -v $tool >/dev/null || { echo "1..0 # SKIP expected $tool, found none"; exit 0; }
done
page=$SRCDIR/docs/add-an-op.md tree=$folder/tree
mkdir "$tree" "$tree/build" && (cd "$SRCDIR" && tar -c --exclude=.git --exclude='./build*' .) | tar -x -C "$tree" ||
  exit 1
chmod -R u+w "$tree"
unset MAKEFLAGS MAKELEVEL

# block PAGE N FROM TO: block N of C in the page, with a new name.
block() {
  awk -v n="$2" '/^```c/ { inside = ++seen == n; next } /^```/ { inside = 0 } inside' "$SRCDIR/docs/$1" | sed \
    "s/$3/$4/g"
}
row=$(sed -n 's/^    \(OP_DX\)(NAME)$/\1(of_the_page)/p' "$page")
mkdir "$tree/src/op/of_the_page"
block add-an-op.md 1 tanh of_the_page >"$tree/src/op/of_the_page/of_the_page.h"
block add-an-op.md 2 tanh of_the_page >"$tree/src/op/of_the_page/of_the_page.c"
sed -i "s/^OP_DX(swish)\$/&\\
$row/" "$tree/src/kernel/ops.def"
grep -q '^OP_DX(of_the_page)' "$tree/src/kernel/ops.def" &&
  grep -q OP_ELEMENTWISE "$tree/src/op/of_the_page/of_the_page.h" &&
  grep -q hd__rule_of_the_page "$tree/src/op/of_the_page/of_the_page.c"
result $? "the page has a row, a header and a rule"

optimizer=$tree/src/optimizer/by_the_page
row=$(sed -n 's/^    \(OPTIMIZER\)(NAME)$/\1(by_the_page)/p' "$SRCDIR/docs/add-an-optimizer.md")
mkdir "$optimizer"
block add-an-optimizer.md 1 lion by_the_page >"$optimizer/by_the_page.h"
block add-an-optimizer.md 2 lion by_the_page >"$optimizer/by_the_page.c"
sed -i "s/^#undef OPTIMIZER\$/$row\\
&/" "$tree/src/kernel/optimizers.def"
grep -q '^OPTIMIZER(by_the_page)' "$tree/src/kernel/optimizers.def" && grep -q 'int by_the_page_at' \
    "$optimizer/by_the_page.h" &&
  grep -q hd__optimizer_by_the_page "$optimizer/by_the_page.c"
result $? "that of optimizers has a row, a header and a rule"

row=$(sed -n 's/^    \(FORMAT\)(NAME)$/\1(pixels)/p' "$SRCDIR/docs/add-a-data-format.md")
block add-a-data-format.md 1 pixels pixels >"$tree/src/data/formats/pixels.c"
sed -i "s/^#undef FORMAT\$/$row\\
&/" "$tree/src/data/formats/formats.def"
grep -q '^FORMAT(pixels)' "$tree/src/data/formats/formats.def" &&
  grep -q 'hd_format hd__format_pixels = ' "$tree/src/data/formats/pixels.c"
result $? "that of data formats has a row and a file"

sed -i "s/^#undef SCHEDULE\$/SCHEDULE(by_the_page)\\
&/" "$tree/src/optimizer/schedules.def"
block add-an-optimizer.md 3 linear by_the_page >"$folder/curve"
sed -i "/^\/\* ---- The table/{
r $folder/curve
N
}" "$tree/src/optimizer/schedule_rules.c"
sed -i "s/^#undef COMMAND\$/COMMAND(params)\\
&/" "$tree/src/cli/commands.def"
block add-a-command.md 1 params params >"$tree/src/cli/cmd_params.c"
grep -q '^SCHEDULE(by_the_page)' "$tree/src/optimizer/schedules.def" && grep -q by_the_page_at "$folder/curve" &&
  grep -q 'cli_command cli_params = ' "$tree/src/cli/cmd_params.c"
result $? "those of schedules and commands have a row and code"

(cd "$tree" && ./bootstrap && cd build &&
  CONFIG_SHELL=/bin/sh ../configure CFLAGS=-O0 --without-scdoc --without-cuda &&
  make -j2 HAVE_ISA= libheddlecore_la_LIBADD=libkernel_double.la libheddlecore_la_DEPENDENCIES=libkernel_double.la \
    heddle tests/op/test_gradients tests/op/test_network_gradients tests/op/test_updates) >"$folder/log" 2>&1
result $? "a tree with them builds" "$(tail -n 20 "$folder/log")"
for test in "test_gradients of_the_page" test_network_gradients test_updates; do
  # shellcheck disable=SC2086
  HD_DEPTH=1 "$tree/build/tests/op/"$test >"$folder/out" 2>&1
  code=$?
  [ $code -eq 0 ] && grep -q '^ok.*_the_page' "$folder/out"
  result $? "${test%% *} finds it" "exit status $code: $(grep '^not ok' "$folder/out")"
done

# digest OPERATION OPTIMIZER
digest() {
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 9}\n' >"$folder/m.yaml"
  printf '  - a: {op: %s}\n  - o: {op: linear, out: 10}\n' "$1" >>"$folder/m.yaml"
  HEDDLE_ISA=reference "$tree/build/heddle" train --model "$folder/m.yaml" --data digits --max-steps 20 --threads 1 \
    --optimizer "$2" --schedule "${3:-const}" --out "$folder/$1-$2" --json 2>"$folder/err" >"$folder/json"
  value weights_sha256 "$folder/json"
}
known=$(digest tanh adamw) new=$(digest of_the_page adamw)
[ -n "$known" ] && [ "$known" = "$new" ]
result $? "a network with it has the bits of the same one with the operation of the page" "'$known' and '$new': "\
"$(cat "$folder/err")"
known=$(digest tanh lion) new=$(digest tanh by_the_page)
[ -n "$known" ] && [ "$known" = "$new" ]
result $? "and the optimizer of the page has the bits of the one that it shows" "'$known' and '$new': "\
"$(cat "$folder/err")"
"$tree/build/heddle" train --help | grep -q 'lion.*by_the_page: decay rates'
result $? "and help says what it takes"
rm -r "$folder/tanh-adamw"
known=$(digest tanh adamw linear) && rm -r "$folder/tanh-adamw" && new=$(digest tanh adamw by_the_page)
[ -n "$known" ] && [ "$known" = "$new" ]
result $? "so has its schedule" "'$known' and '$new': $(cat "$folder/err")"
"$tree/build/heddle" params --model mlp >"$folder/out" 2>&1 && grep -qx '101,770 parameters' "$folder/out" &&
  "$tree/build/heddle" --help | grep -q '^  params  *how many numbers'
result $? "the command of the page runs" "$(cat "$folder/out")"

# The same 40 pictures of 6x5 pixels as one file of the page's format, and as NPY files.
bytes() { # COUNT MODULUS FACTOR
  printf "$(awk -v n="$1" -v m="$2" -v f="$3" 'BEGIN { for (i = 0; i < n; i++) printf "\\%03o", (i * f + i % 7) % m }')"
}
array() { # SHAPE
  printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
}
mkdir "$folder/npy"
bytes 40 4 3 >"$folder/labels" && bytes 1200 251 37 >"$folder/pictures"
{ echo pixels 40 6 5 && cat "$folder/labels" "$folder/pictures"; } >"$folder/a.pixels"
{ array '40,' && cat "$folder/labels"; } >"$folder/npy/labels.npy"
{ array '40, 6, 5' && cat "$folder/pictures"; } >"$folder/npy/images.npy"
printf 'model: m\ninput: [1, 6, 5]\nlayers:\n  - f: {op: flatten}\n  - o: {op: linear, out: 4}\n' >"$folder/s.yaml"
trained() { # DATA
  rm -rf "$folder/run"
  HEDDLE_ISA=reference "$tree/build/heddle" train --model "$folder/s.yaml" --data "$1" --batch 8 --max-steps 8 \
    --threads 1 --out "$folder/run" --json 2>"$folder/err" >"$folder/json"
  value weights_sha256 "$folder/json"
}
known=$(trained "$folder/npy") new=$(trained "$folder/a.pixels")
[ -n "$known" ] && [ "$known" = "$new" ]
result $? "a file of the page's format trains to the weights of the same samples in NPY files" "'$known' and '$new': "\
"$(cat "$folder/err")"
"$tree/build/heddle" data "$folder/a.pixels" >"$folder/out" 2>&1 && grep -q 'a .pixels file' "$folder/out"
result $? "heddle data names the format" "$(cat "$folder/out")"
printf x >>"$folder/a.pixels"
! "$tree/build/heddle" data "$folder/a.pixels" >"$folder/out" 2>&1 &&
  grep -q 'a.pixels: expected 1240 bytes after the first line, found 1241' "$folder/out"
result $? "a longer file is refused by name" "$(cat "$folder/out")"
"$tree/build/heddle" data nothing >"$folder/out" 2>&1
grep -q 'an .npz, a .csv, a .txt or a .pixels file as --data' "$folder/out"
result $? "and the message that lists formats has it" "$(cat "$folder/out")"
echo "1..$count"
