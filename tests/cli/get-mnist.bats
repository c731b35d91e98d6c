#!/usr/bin/env bats
# tools/get-mnist against a server that breaks off, lies, ignores where to go on, and falls asleep.

load cli
GET_MNIST=$SRCDIR/tools/get-mnist BAD_SERVER=$BUILDDIR/tests/cli/bad_server

# A separate table: a set of two gzip files and one in a tar, in $FOLDER/published.
publish() {
  command -v curl >/dev/null || command -v wget >/dev/null || skip "neither curl nor wget is installed"
  mkdir published
  seq 1 20000 >one
  seq 5 9 >two
  gzip -c one >published/one.gz
  gzip -c two >published/two.gz
  mkdir -p bundle
  cp one two bundle
  tar -czf published/bundle.tar.gz bundle
  {
    for f in one two; do
      echo "file small $f.gz $(sha256sum <published/$f.gz | cut -d' ' -f1) $(sha256sum <$f | cut -d' ' -f1)"
    done
    echo "unpack small gzip"
    echo "dir small small"
    echo "file packed bundle.tar.gz $(sha256sum <published/bundle.tar.gz | cut -d' ' -f1)"
    echo "unpack packed tar"
    echo "dir packed bundle"
    echo "file plain one $(sha256sum <one | cut -d' ' -f1)"
    echo "unpack plain none"
    echo "dir plain plain"
    echo "from small http://127.0.0.1:1"
  } >table
  coproc SERVER { exec "$BAD_SERVER" published; }
  read -r PORT <&"${SERVER[0]}"
  CHILD=$SERVER_PID
}

# get MANNERS...: the set "small" from these mirrors in turn.
get() {
  local from=()
  for manner; do from+=(--from "http://127.0.0.1:$PORT/$manner"); done
  run "$GET_MNIST" --table table --dir cache --patience 1 "${from[@]}" "${SET:-small}"
}

complete() {
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  cmp one cache/small/one
  cmp two cache/small/two
  [ "$(ls cache/small)" = "$(printf '%s\n' one one.gz.sums two two.gz.sums)" ]
}

@test "a good mirror: every file, unpacked, and nothing else" {
  publish
  get good
  complete
}

@test "from a folder, or one of its files: for a machine without a network" {
  publish
  mv published "set aside"
  for from in "set aside" "set aside/one.gz"; do
    rm -rf cache
    run "$GET_MNIST" --table table --dir cache --from "$from" small
    complete
  done
  run "$GET_MNIST" --table table --dir cache --from nowhere small
  [ "$status" -eq 2 ]
}

@test "files that are unpacked, or compressed anew: what they unpack to counts" {
  publish
  mkdir others
  gzip -1 -c one >others/one.gz
  cp two others
  no cmp -s others/one.gz published/one.gz
  run "$GET_MNIST" --table table --dir cache --from others small
  complete
  rm -r cache
  mkdir -p cache/small
  cp others/one.gz published/two.gz cache/small
  run "$GET_MNIST" --table table --dir cache small
  complete
  for wrong in two one.gz; do
    rm -r cache
    cp -r others wrong
    seq 2 20000 >wrong/$wrong
    run "$GET_MNIST" --table table --dir cache --from wrong small
    [ "$status" -eq 1 ]
    [ ! -e "cache/small/${wrong%.gz}" ]
    rm -r wrong
  done
}

@test "heddle get runs it with its own table" {
  mkdir empty
  fails 2 get
  fails 2 get imagenet
  says "get expects a data set (mnist, fashion, cifar10, cifar100, shakespeare), found 'imagenet'" \
    "see heddle get --help"
  fails 2 get mnist --patience 0
  says "--patience expects a whole number from 1 to 86400 seconds, found '0'; raise it to 1 or more"
  fails 2 get mnist --from nowhere
  code=0
  "$HEDDLE" get mnist --from empty --dir cache >out 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q 'could not get train-images-idx3-ubyte.gz' err
  grep -q '  t10k-labels-idx1-ubyte.gz  SHA-256 f7ae60f92e' err
  fails 1 train --data mnist
  says 'run heddle get mnist'
}

@test "what is complete is not fetched again; what was changed is" {
  publish
  get good
  mv published elsewhere
  get good
  complete
  echo changed >cache/small/two
  get good
  [ "$status" -eq 1 ]
  mv elsewhere published
  get good
  complete
}

@test "a mirror that breaks off: goes on from there, again and again" {
  publish
  get half
  complete
}

@test "a mirror with wrong bytes: they are discarded, the next one is used" {
  publish
  get lies good
  complete
  [[ $output == *"with SHA-256"*"expected"* ]]
}

@test "wrong bytes from all mirrors: nothing is kept, and the message says what to put where" {
  publish
  get lies
  [ "$status" -eq 1 ]
  [ ! -e cache ]
  [[ $output == *"put these files into cache/small"*"one.gz  SHA-256"*"two.gz  SHA-256"* ]]
}

@test "a wrong beginning from one mirror does not spoil the end from another" {
  publish
  get spoils good
  complete
}

@test "a mirror that cannot resume" {
  publish
  mkdir -p cache/small
  head -c 1000 published/one.gz >cache/small/one.gz.part
  get deaf
  complete
}

@test "a mirror that falls asleep is left" {
  publish
  get slow good
  complete
}

@test "a call that was cut off: the next one goes on" {
  publish
  mkdir -p cache/small
  head -c 5000 published/one.gz >cache/small/one.gz.part
  get good
  complete
}

@test "a whole file that was not yet moved, and one that is too long" {
  publish
  mkdir -p cache/small
  cp published/one.gz cache/small/one.gz.part
  cat published/two.gz published/two.gz >cache/small/two.gz.part
  get good
  complete
}

@test "files put there by hand are checked and unpacked" {
  publish
  mkdir -p cache/small
  cp published/one.gz published/two.gz cache/small
  run "$GET_MNIST" --table table --dir cache small
  complete
}

@test "offline: which files to put where, and where they are published" {
  publish
  run "$GET_MNIST" --table table --dir cache --patience 1 small
  [ "$status" -eq 1 ]
  [[ $output == *"put these files into cache/small"*"one.gz  SHA-256"*"published at"*"http://127.0.0.1:1"* ]]
}

@test "offline: folders that were made for nothing are removed, and no others" {
  publish
  run "$GET_MNIST" --table table --dir "a b/cache" --patience 1 small packed
  [ "$status" -eq 1 ]
  [ ! -e "a b" ]
  mkdir -p "a b/cache"
  run "$GET_MNIST" --table table --dir "a b/cache" --patience 1 small
  [ "$status" -eq 1 ]
  [ -z "$(ls "a b/cache")" ]
  echo mine >"a b/cache/file"
  mkdir "a b/cache/small"
  run "$GET_MNIST" --table table --dir "a b/cache" --patience 1 small
  [ "$(ls "a b/cache")" = "$(printf 'file\nsmall')" ]
}

@test "an archive" {
  publish
  SET=packed get half
  [ "$status" -eq 0 ]
  cmp one cache/bundle/one
  cmp two cache/bundle/two
  SET=packed get
  [ "$status" -eq 0 ]
}

@test "a file that is kept as it is; heddle get shakespeare names its own" {
  publish
  cp one published/one
  SET=plain get half good
  [ "$status" -eq 0 ]
  cmp one cache/plain/one
  rm published/one
  SET=plain get good
  [ "$status" -eq 0 ]
  echo more >>cache/plain/one
  SET=plain get good
  [ "$status" -eq 1 ]
  mkdir empty
  code=0
  "$HEDDLE" get shakespeare --from empty --dir cache >out 2>err || code=$?
  [ "$code" -eq 1 ]
  grep -q '  input.txt  SHA-256 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed' err
  fails 1 train --model gpt-nano --data shakespeare --data-dir empty
  says 'run heddle get shakespeare'
  mkdir empty/shakespeare
  seq 1 2000 >empty/shakespeare/input.txt
  "$HEDDLE" data shakespeare --data-dir empty --context 8 >out
}

@test "wrong usage" {
  for args in nonesuch --nonsense --dir "--patience soon" "--patience 0" "--table absent mnist"; do
    run "$GET_MNIST" $args
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
  done
}

@test "what is no file is not read: a device, a pipe, a link to one; a source without an end has one" {
  publish
  mkdir odd
  ln -s /dev/zero odd/one.gz
  mkfifo odd/two.gz
  run timeout 20 "$GET_MNIST" --table table --dir cache --from odd small
  [ "$status" -eq 1 ]
  [[ "$output" == *"one.gz: expected a file, found a folder, a pipe or a device"* ]]
  [[ "$output" == *"two.gz: expected a file, found a folder, a pipe or a device"* ]]
  [ ! -e cache ]
  sed 's/^most_blocks=.*/most_blocks=100/' "$GET_MNIST" >bounded
  head -c 1000000 /dev/zero >published/one.gz
  run sh bounded --table table --dir cache --from published small
  [ "$status" -eq 1 ]
  [ -z "$(find cache -size +60k)" ]
}
