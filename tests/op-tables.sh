#!/bin/sh
# TAP: the tables of operations in the pages are those that tools/op-tables makes of src/op and src/optimizer; and it
# sees what differs.
. "$SRCDIR/tests/tap.sh"
"$SRCDIR/tools/op-tables" "$SRCDIR" >"$folder/out" 2>&1
result $? "the pages have the chains and the settings of src/op" "$(cat "$folder/out")"

tree=$folder/tree
mkdir "$tree" && (cd "$SRCDIR" && tar -c src/op src/optimizer src/kernel/ops.def src/kernel/optimizers.def \
    tools/op-tables tools/paste-table docs) | tar -x -C "$tree" || exit 1
chmod -R u+w "$tree"
# sees WHAT FILE EXPRESSION PATTERN: after the change of a source it fails, and prints a line like PATTERN.
sees() {
  cp "$tree/$2" "$folder/before"
  sed "$3" "$folder/before" >"$tree/$2"
  ! cmp -s "$tree/$2" "$folder/before" && ! "$tree/tools/op-tables" >"$folder/out" 2>&1 && grep -q "$4" "$folder/out"
  result $? "another $1 is seen" "$(cat "$folder/out")"
}
sees bound src/op/huber/huber.c 's/high = 1e6/high = 1e7/' '^> | `delta` | 1e-6 to 1e7 |'
sees default src/op/dropout/dropout.c 's/default_value = 0.5/default_value = 0.25/' '^> | `p` | 0 to 1 | `0.25` |'
sees chain src/op/mse/mse.h 's/fma(d, d, s)/fma(d, s, d)/' '^> | `mse` | 16 chains of `fma(d, s, d)`'
sees "optimizer's chain" src/optimizer/sgd/sgd.h 's/`d = m1`/`d = 2 m1`/' '^> | `sgd` | .*`d = 2 m1`'
"$tree/tools/op-tables" --write && "$tree/tools/op-tables" && grep -q '`p` | 0 to 1 | `0.25`' \
    "$tree/docs/model-files.md"
result $? "--write puts them into the pages"
sees "optimizer's default" src/optimizer/lion/lion.c 's/0\.0001/0.0002/' '^> | `lion` | `lr` 0.0002'
sees 'optimizer without a chain' src/optimizer/adam/adam.h 's/w1:/weight:/' 'expected the chain `w1: `'
sees 'kernel without a chain' src/op/relu/relu.h '/dx:/d' 'expected the chain `dx: `'
echo "1..$count"
