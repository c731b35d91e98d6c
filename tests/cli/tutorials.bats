# The README and the pages that teach by examples: their commands work as printed, one after the other in an empty
# folder, and print the digests and the lines that the pages show.

load cli

# needs_mnist: a copy of MNIST where heddle get would put it, which may unpack it there, or the test is skipped.
needs_mnist() {
  mnist=$SRCDIR/../shared/data/mnist
  [ -d "$mnist" ] || skip "expected MNIST in ../shared/data/mnist, found none"
  mkdir -p "$HOME/.cache/heddle/mnist"
  cp "$mnist"/*ubyte* "$HOME/.cache/heddle/mnist"
  chmod u+w "$HOME/.cache/heddle/mnist"/*
}

# commands PAGE: the lines of its blocks that begin with heddle, as they are printed.
commands() {
  sed -n 's/^    \(heddle [a-z].*\)/\1/p' "$SRCDIR/$1"
}

# as_printed: runs the lines of standard input; what they print in `out`.
as_printed() {
  local line count=0
  mkdir -p bin
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$HEDDLE" >bin/heddle
  chmod +x bin/heddle
  while read -r line; do
    count=$((count + 1))
    PATH=$PWD/bin:$PATH COLUMNS=${COLUMNS:-80} bash -c "$line" >this 2>&1 </dev/null || {
      echo "$line: exit code $?"
      cat this
      return 1
    }
    ! grep -q '^heddle: ' this || { echo "$line"; cat this; return 1; }
    cat this >>out
  done
  [ "$count" -gt 4 ]
}

# printed PAGE PATTERN...: lines of a page that hold a pattern, each of which stands in `out`.
printed() {
  local page=$1 pattern line
  shift
  for pattern; do
    grep -- "^    $pattern" "$SRCDIR/$page" | sed 's/^    //' >expected
    [ -s expected ] || { echo "$page: no line '$pattern'"; return 1; }
    while read -r line; do
      grep -Fq -- "$line" out || { echo "$page: expected '$line', found:"; cat out; return 1; }
    done <expected
  done
}

@test "the README's twelve commands work as printed" {
  [ "${HD_DEPTH:-1}" -ge 2 ] || skip "make check-all trains on MNIST"
  needs_mnist
  [ "$(commands README.md | wc -l)" -eq 12 ]
  commands README.md >lines
  as_printed <lines
  grep -q '^test accuracy   99\.' out
  grep -Eq '^    9 +[0-9.]+ % +[0-9,]+ of [0-9,]+( +[0-9.]+){10}$' out # with its row of the matrix, in one line
  grep -q '^6 of 6 runs done' out
  grep -q '^verified 900 steps' out
  [ -s mnist.onnx ]
  [ -s mnist.c ]
  [ -s runs/mlp-1/certificate.json ]
  heddle_digest=$("$HEDDLE" digest runs/mlp-1)
  "$HEDDLE" train --model mlp --max-steps 900 --out at-once >out
  [ "$heddle_digest" = "$(digest_of out)" ]
}

# Those of its installation have tests of their own: tests/quickstart.sh, tests/install-local.sh, tests/bits/readme.sh.
@test "the README has no other lines than those that a test runs or compares" {
  grep '^    ' "$SRCDIR/README.md" | grep -v '^    heddle ' | cut -c 5- >others
  cat >expected <<'END'
./tools/quickstart
test accuracy   99.40 % (60 wrong)
weights_sha256  5059bd8acc422c71166ba8c83678bb3a71a407b2209fbec195aed47e51f4577f
what it got wrong: runs/cnn-1/wrong.png
report          runs/cnn-1/report.html
./tools/quickstart --check
./tools/install-deps --build --yes
./bootstrap && ./configure && make -j"$(nproc)" && sudo make install
END
  diff expected others
  grep '^> ' "$SRCDIR/README.md" | sed 's/^> //; s/\\$//' >quoted
  grep -o '^`[0-9a-f]\{64\}' "$SRCDIR/README.md" | tr -d '`' >>quoted
  [ "$(wc -l <quoted)" -eq 5 ]
  while read -r line; do
    grep -qF -e "$line" "$SRCDIR/docs/text.md" || { echo "docs/text.md: expected '$line', found none"; return 1; }
  done <quoted
}

@test "the commands of docs/mnist.md work as printed, and print what it shows" {
  [ "${HD_DEPTH:-1}" -ge 2 ] || skip "make check-all trains on MNIST"
  needs_mnist
  commands docs/mnist.md >lines
  COLUMNS=120 as_printed <lines
  printed docs/mnist.md 'test accuracy' weights_sha256 saved 'what it got wrong' report 'mnist\[' 'samples  ' 'shape  '
  sed 's/  *//g' out >squeezed
  for row in '    0        5,923' '    1        6,742' '    4   98.78' '    9   98.91'; do
    grep -Fqx -- "$(grep -F -- "$row" "$SRCDIR/docs/mnist.md" | sed 's/  *//g')" squeezed
  done
}

@test "the commands of docs/fine-tune.md work as printed on pictures made for them" {
  "$BUILDDIR/tests/bits/make_data" pictures photos 120 40
  printf '%s\n' 'model: net' 'input: [3, 32, 32]' 'layers:' '  - conv1: {op: conv2d, out: 8, kernel: 3, stride: 2}' \
    '  - norm1: {op: batch_norm}' '  - relu1: {op: relu}' '  - conv2: {op: conv2d, out: 12, kernel: 3, stride: 2}' \
    '  - relu2: {op: relu}' '  - conv3: {op: conv2d, out: 16, kernel: 3}' '  - relu3: {op: relu}' \
    '  - mean: {op: global_avg_pool2d}' '  - flat: {op: flatten}' '  - fc: {op: linear, out: 5}' >net.yaml
  "$HEDDLE" train --model net.yaml --data random:3x32x32:5 --max-steps 20 --out first >out
  "$HEDDLE" export first --onnx net.onnx >out
  mkdir new
  cp photos/test/c[01]/*.png new
  commands docs/fine-tune.md >lines
  [ "$(wc -l <lines)" -eq 6 ]
  COLUMNS=120 as_printed <lines
  printed docs/fine-tune.md 'the frozen layers'
  grep -q '^net.onnx normalises its input' out
  [ "$(grep -c '^0[0-9][0-9].png ' out)" -eq 8 ]
  [ "$(wc -l <new.csv)" -eq 9 ]
  [ "$("$HEDDLE" digest pets)" != "$("$HEDDLE" digest deeper)" ]
}

@test "the commands of docs/text.md work as printed, and for as long as it says print what it shows" {
  [ "${HD_DEPTH:-1}" -ge 2 ] || skip "make check-all trains on Shakespeare"
  shakespeare=$SRCDIR/../shared/data/shakespeare
  [ -d "$shakespeare" ] || skip "expected Shakespeare in ../shared/data/shakespeare, found none"
  mkdir -p "$HOME/.cache/heddle/shakespeare"
  cp "$shakespeare/input.txt" "$HOME/.cache/heddle/shakespeare"
  chmod u+w "$HOME/.cache/heddle/shakespeare/input.txt"
  commands docs/text.md >lines
  [ "$(wc -l <lines)" -eq 8 ]
  if [ "$HD_DEPTH" -lt 3 ]; then # make check-long trains for the two minutes of the page
    sed -i 's/^heddle train .*/& --max-steps 10 --warmup 0/' lines
    as_printed <lines
    return
  fi
  as_printed <lines
  printed docs/text.md 'test loss' perplexity 'bits per byte' 'test accuracy' weights_sha256 saved report 'samples  ' \
    'classes  ' 'epoch ' 'a text after' ' *[A-Z][A-Za-z, ]*[.:;]$' '37+58=95' '---- '
}

@test "the first lines of runs that pages show are those of this version" {
  version=$("$HEDDLE" --version | sed -n '1s/^heddle \([0-9.]*\).*/\1/p')
  for page in mnist cluster; do grep -q "^    heddle $version: cnn " "$SRCDIR/docs/$page.md"; done
}

PAGES="mnist text how-many-threads course from-a-script"

@test "every command and option of the tutorials exists" {
  for page in $PAGES; do grep -hE '^    heddle [a-z]+ |`heddle [a-z]+ ' "$SRCDIR/docs/$page.md"; done |
    sed 's/^    //; s/.*`\(heddle [^`]*\)`.*/\1/' | sort -u >commands
  [ "$(wc -l <commands)" -ge 20 ]
  while read -r _ command rest; do
    "$HEDDLE" "$command" --help >help
    [ "$command" != bench ] || "$HEDDLE" bench "${rest%% *}" --help >help
    for option in $(grep -oE -- '--[a-z-]+' <<<"$rest"); do
      grep -q -- "$option\b" help || { echo "heddle $command has no $option"; false; }
    done
  done <commands
}

@test "the course's first two exercises give its digests and its elements" {
  page=$SRCDIR/docs/course.md
  sed -n '/^## 1/,/^## 3/s/^    \(heddle .*\)/\1/p' "$page" >commands
  [ "$(wc -l <commands)" -eq 6 ]
  while read -r _ command; do
    "$HEDDLE" $command >>out 2>&1 </dev/null || [ $? -eq 3 ] # bisect has found a difference
  done <commands
  [ "$(grep -cx "$(sed -n 's/^    \([0-9a-f]\{64\}\)$/\1/p' "$page" | head -n 1)" out)" -eq 2 ]
  for line in 'settings ' 'computed by ' 'a   ' 'b   '; do
    expected=$(sed -n "s/^    \($line.*\)/\1/p" "$page")
    [ -n "$expected" ]
    grep -Fqx "$expected" out
  done
}
