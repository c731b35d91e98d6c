#!/bin/sh
# TAP: docs/add-an-op.md is enough to add an operation. A copy of the tree gets one by the page's row, header and rule,
# under another name, and nothing else; it builds, the tests of gradients find it, and a network with it trains to the
# bits of the same network with the operation that the page shows. It is a separate build, of the reference kernels:
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

# Block N of C in the page, with the new name.
block() {
  awk -v n="$1" '/^```c/ { inside = ++seen == n; next } /^```/ { inside = 0 } inside' "$page" |
    sed 's/tanh/of_the_page/g'
}
row=$(sed -n 's/^    \(OP_DX\)(NAME)$/\1(of_the_page)/p' "$page")
mkdir "$tree/src/op/of_the_page"
block 1 >"$tree/src/op/of_the_page/of_the_page.h"
block 2 >"$tree/src/op/of_the_page/of_the_page.c"
sed -i "s/^OP_DX(swish)\$/&\\
$row/" "$tree/src/kernel/ops.def"
grep -q '^OP_DX(of_the_page)' "$tree/src/kernel/ops.def" &&
  grep -q OP_ELEMENTWISE "$tree/src/op/of_the_page/of_the_page.h" &&
  grep -q hd__rule_of_the_page "$tree/src/op/of_the_page/of_the_page.c"
result $? "the page has a row, a header and a rule"

(cd "$tree" && ./bootstrap && cd build && ../configure CFLAGS=-O1 --disable-shared --without-scdoc &&
  make -j2 HAVE_ISA= libheddlecore_la_LIBADD=libkernel_double.la libheddlecore_la_DEPENDENCIES=libkernel_double.la \
    heddle tests/op/test_gradients tests/op/test_network_gradients) >"$folder/log" 2>&1
result $? "a tree with them builds" "$(tail -n 20 "$folder/log")"
for test in test_gradients test_network_gradients; do
  HD_DEPTH=1 "$tree/build/tests/op/$test" >"$folder/out" 2>&1
  code=$?
  [ $code -eq 0 ] && grep -q '^ok.*of_the_page' "$folder/out"
  result $? "$test finds it" "exit status $code: $(grep '^not ok' "$folder/out")"
done

# digest OPERATION
digest() {
  printf 'model: m\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 9}\n' >"$folder/m.yaml"
  printf '  - a: {op: %s}\n  - o: {op: linear, out: 10}\n' "$1" >>"$folder/m.yaml"
  HEDDLE_ISA=reference "$tree/build/heddle" train --model "$folder/m.yaml" --data digits --max-steps 20 --threads 1 \
    --out "$folder/$1" --json 2>"$folder/err" >"$folder/json"
  value weights_sha256 "$folder/json"
}
known=$(digest tanh) new=$(digest of_the_page)
[ -n "$known" ] && [ "$known" = "$new" ]
result $? "a network with it has the bits of the same one with the operation of the page" \
  "'$known' and '$new': $(cat "$folder/err")"
echo "1..$count"
