# heddle data: its output for every format, its sheet, its findings; and training past unreadable
# samples.

load cli

setup_file() {
  export KEYS="data format samples test_samples shape type bytes test_bytes classes per_class test_per_class"
}

make() { # KIND NAME
  "$BUILDDIR/tests/bits/make_data" "$1" "$2" 140 50
}

is_png() {
  [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]
  [ "$(tail -c 8 "$1" | od -An -c | tr -d ' ' | cut -c 1-4)" = IEND ]
}

@test "MNIST has the mean 0.1307 and the standard deviation 0.3081" {
  mnist=$SRCDIR/../shared/data/mnist
  [ -d "$mnist" ] || skip "expected MNIST in ../shared/data/mnist, found none"
  "$HEDDLE" data "$mnist" --sheet sheet.png >out
  grep -qx 'samples    60,000 to train, 10,000 to test' out
  grep -qx 'mean       0.1307' out
  grep -qx 'std        0.3081' out
  grep -Eq '^ +1 +6,742 +1,135$' out
  is_png sheet.png
  "$HEDDLE" data mnist --data-dir "$mnist" --json >out
  [ "$(json_get mean std samples test_samples shape type bytes per_class.5 test_per_class.5 <out)" = \
    "0.1307 0.3081 60000 10000 [1,28,28] u8 47040000 5421 892" ]
}

@test "every format is described, checked and drawn" {
  mkdir idx
  "$BUILDDIR/tests/bits/make_idx" idx 140 50
  for kind in npy cifar planes floats pictures; do make $kind $kind; done
  printf 'a,b,label\n' >rows.csv
  for i in $(seq 30); do printf '%d,0.%d,%s\n' "$i" "$i" "k$((i % 3))" >>rows.csv; done
  printf 'a,b,target\n' >numbers.csv
  for i in $(seq 30); do printf '%d,0.%d,%d.5\n' "$i" "$i" $((i - 10)) >>numbers.csv; done
  for data in idx npy cifar planes floats pictures rows.csv numbers.csv random:3x8x8 random:3x8x8:300 digits; do
    "$HEDDLE" data $data --check --sheet sheet.png >out 2>err
    grep -q "^data  *$data: " out
    grep -Eq '^checked +[0-9,]+ samples: all can be read$' out
    is_png sheet.png
    rm sheet.png
    "$HEDDLE" data $data --json >out
    [ "$(wc -l <out)" -eq 1 ]
    case $data in
    numbers.csv)
      [ "$(json_keys <out)" = "${KEYS%% classes*} outputs target_low target_high mean std columns notes" ]
      [ "$(json_get outputs <out)" = 1 ]
      [[ "$(json_get target_low)" == -*.5 ]] <out
      ;;
    rows.csv) [ "$(json_keys <out)" = "$KEYS class_names mean std columns notes" ] ;;
    pictures) [ "$(json_keys <out)" = "$KEYS class_names mean std" ] ;;
    *) [ "$(json_keys <out)" = "$KEYS mean std" ] ;;
    esac
  done
  make npz digits.npz && "$HEDDLE" data digits.npz --sheet sheet.png >out || [ $? -eq 77 ]
}

@test "a table is described column by column, and many classes get a note" {
  {
    echo 'rooms,area,town,age,price'
    seq 80 | awk '{ print 3 "," 20 + 40 * ($1 % 2) ".5," ($1 % 3 ? "Bonn" : "Ulm") "," ($1 % 2 ? 7 : "") "," $1 ".5" }'
  } >houses.csv
  COLUMNS=80 "$HEDDLE" data houses.csv >out
  [ "$(wc -L <out)" -le 80 ]
  grep -Eqx 'rooms      numbers                3             [01]    0.0 %' out
  grep -Eqx 'area       numbers +[34][0-9.]+ +(20|19)[.0-9]* +0.0 %' out
  grep -qx 'town       2 texts                -             -    0.0 %' out
  grep -Eqx 'age        numbers +7 +[01] +[45][0-9].[0-9] %' out
  no grep -q '^mean' out
  "$HEDDLE" data houses.csv --json >out
  [ "$(json_get columns.0 <out | json_keys)" = "name number texts empty mean std" ]
  [ "$(json_get columns.0.name columns.1.number columns.2.texts columns.2.mean columns.3.mean <out)" = \
    "rooms 1 2 null 7" ]
  make floats rows # an array
  "$HEDDLE" data rows >out
  {
    echo 'a,label'
    for i in $(seq 120); do echo "$i,$((i % 51))"; done
  } >many.csv
  "$HEDDLE" data many.csv >out
  grep -q '^note       the labels were read as 51 classes; heddle train --loss mse reads them as numbers' out
  sed -i '/,50$/d' many.csv
  "$HEDDLE" data many.csv >out
  no grep -q 'were read as' out
}

# picture FILE COLOUR: a PNG of 8x8 pixels, in colours with 2, grey with 0.
picture() {
  python3 - "$@" <<'END' || skip "python3 is not installed"
import struct, sys, zlib
path, colour = sys.argv[1], int(sys.argv[2])
chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
rows = (b"\0" + bytes(range(8 * (colour + 1)))) * 8
open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 8, 8, 8, colour, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}

@test "a coloured picture in another set gives all samples three channels, and a line says so" {
  mkdir -p shades/train/a shades/train/b shades/validation/a shades/validation/b shades/test/a shades/test/b
  picture grey.png 0
  picture coloured.png 2
  for folder in shades/*/*; do cp grey.png "$folder"; done
  "$HEDDLE" data shades >out
  grep -qx 'shape      1x8x8, bytes' out
  no grep -q 'are grey' out
  for part in validation test; do
    cp coloured.png shades/$part/b
    "$HEDDLE" data shades >out
    grep -qx 'shape      3x8x8, bytes' out
    grep -q "^note       shades: all pictures of train/ are grey, but shades/$part/b/coloured.png has colours: "\
'samples have 3 channels' out
    rm shades/$part/b/coloured.png
  done
  cp coloured.png shades/train/a
  "$HEDDLE" data shades >out
  grep -qx 'shape      3x8x8, bytes' out
  no grep -q 'are grey' out
}

@test "pictures of several sizes are described and drawn" {
  make pictures photos
  "$HEDDLE" data random:1x8x8 --sheet photos/train/c3/003.png >out
  "$HEDDLE" data photos --sheet sheet.png >out
  grep -Eq '^shape      3 channels, heights 32 to [0-9]+, widths 32 to [0-9]+, bytes$' out
  is_png sheet.png
  "$HEDDLE" data photos --json >out
  [ "$(json_get shape smallest <out)" = "[3,null,null] [32,32]" ]
  [ "$(json_get largest.1 <out)" -gt 500 ]
}

@test "--check names what is wrong, and ends with 3" {
  make pictures photos
  : >photos/train/c3/003.png
  head -c 700 photos/train/c4/104.png >cut && mv cut photos/train/c4/104.png
  echo no picture >photos/test/c0/040.png
  fails 1 data photos
  says "photos/train/c3/003.png: expected" "found an empty file"
  code=0
  "$HEDDLE" data photos --check >out || code=$?
  [ "$code" -eq 3 ]
  grep -Eq '^bad +train 42: photos/train/c3/003.png: expected .* found an empty file' out
  grep -Eq '^bad +train 66: photos/train/c4/104.png: expected a whole PNG' out
  grep -Eq '^bad +test 4: photos/test/c0/040.png: expected a PNG or JPEG' out
  grep -qx 'checked    190 samples: 3 cannot be read' out
  "$HEDDLE" data photos --check --json >out || code=$?
  [ "$code" -eq 3 ]
  [ "$(json_keys <out)" = "$KEYS class_names mean std bad" ]
  [ "$(json_get bad.1.part bad.1.sample bad.2.part per_class.3 <out)" = "train 66 test 14" ]
  printf 'a,label\n1,0\n2,x,1\n' >rows.csv
  fails 3 data rows.csv --check
  says "rows.csv:3"
  fails 1 data rows.csv
}

@test "published sets are found by name: cifar10 and cifar100 in the cache, fashion-mnist where Debian has it" {
  fails 1 data cifar10
  says "cifar-10-batches-bin" "data_batch_1.bin"
  make cifar fetched
  mkdir -p .cache/heddle
  printf '%s\n' a b c d e f g h a j >fetched/batches.meta.txt
  fails 1 data fetched
  says "fetched: expected a name of its own for each class, found 'a' for two"
  rm fetched/batches.meta.txt
  mv fetched .cache/heddle/cifar-10-batches-bin
  "$HEDDLE" data cifar10 --json >out
  [ "$(json_get data format samples shape <out)" = "cifar10 a folder of CIFAR's binary files 140 [3,32,32]" ]
  make_net
  "$HEDDLE" train --data cifar-10 --model net.yaml --max-steps 1 --out run >out
  fails 1 data cifar100
  mkdir -p .cache/heddle/cifar-100-binary
  head -c 30740 /dev/zero >.cache/heddle/cifar-100-binary/train.bin
  head -c 6148 /dev/zero >.cache/heddle/cifar-100-binary/test.bin
  "$HEDDLE" data cifar100 --json >out
  [ "$(json_get samples test_samples classes <out)" = "10 2 100" ]
  "$HEDDLE" data cifar100 --data-dir .cache/heddle/cifar-100-binary >out
  mkdir -p root/usr/share/datasets/fashion-mnist
  "$BUILDDIR/tests/bits/make_idx" root/usr/share/datasets/fashion-mnist 140 50
  gzip root/usr/share/datasets/fashion-mnist/*
  for name in fashion fashion-mnist; do
    HEDDLE_SYSROOT=$PWD/root "$HEDDLE" data $name --json >out
    [ "$(json_get data format samples <out)" = "$name a folder of IDX files 140" ]
  done
  mkdir -p elsewhere/fashion
  "$BUILDDIR/tests/bits/make_idx" elsewhere/fashion 30 10
  HEDDLE_SYSROOT=$PWD/root HEDDLE_DATA=$PWD/elsewhere "$HEDDLE" data fashion-mnist >out
  grep -q '^samples    30 to train' out
}

@test "what is wrong with the command is one line" {
  fails 2 data
  says "found 0" "heddle data --help"
  fails 2 data digits mnist
  fails 2 data digits --sheet
  fails 2 data digits --epochs 3
  fails 1 data nowhere
  says "found 'nowhere'"
  fails 1 data random:1x8x8 --sheet there/sheet.png
  fails 2 data random:1x8
}

PHOTOS="--data photos --batch 16 --epochs 2 --model net.yaml --threads 2"

make_net() {
  make pictures photos
  printf 'model: net\ninput: [3, 32, 32]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >net.yaml
}

# learn ARGS...: a run on photos; its digest.
learn() {
  "$HEDDLE" train $PHOTOS --json "$@" >out 2>err || { cat err; return 1; }
  digest_of out
}

@test "a validation folder beside test is the validation set, and changes nothing else" {
  make_net
  without=$(learn --out without)
  cp -R photos/test photos/valid
  [ "$(learn --out with)" = "$without" ]
  grep -qx 'photos: the validation set is valid/, the test set test/' out
  [ "$(json_get val_loss <out)" = "$(json_get test_loss <out)" ]
  "$HEDDLE" data photos --json >out
  [ "$(json_get samples validation_samples <out)" = "$(ls photos/train/* photos/valid/* | grep -c png) "\
"$(ls photos/valid/* | grep -c png)" ]
  mkdir aside && mv photos/train/c9/* aside # which the validation set has
  "$HEDDLE" data photos --allow-empty | grep -q "1 of 10 classes has no training samples: 9 'c9'"
  mv aside/* photos/train/c9
  fails 2 train $PHOTOS --val-split 0.1
  says "--val-split expects data without a validation set, found one in photos; leave it out"
  cp -R photos/valid empty
  rm photos/valid/*/*.png
  fails 1 train $PHOTOS --allow-empty
  says "photos/valid: expected class folders with pictures, found none; add some, or remove it"
  rm -r photos/valid && mv empty photos/valid
  rm -f photos/train/c9/*9.png photos/valid/c0/*.png
  echo no picture >photos/train/c9/zz.png
  echo no picture >photos/valid/c0/zz.png
  echo no picture >photos/valid/c9/zz.png
  with=$(learn --on-error skip --out skips)
  rm -r photos/valid
  [ "$(learn --on-error skip --out none)" = "$with" ]
}

@test "skipped pictures are replaced by the next, for any reader and any cache" {
  make_net
  whole=$(learn --out whole)
  cp photos/train/c3/013.png photos/train/c3/003.png
  wanted=$(learn --out copy)
  [ "$wanted" != "$whole" ]
  head -c 700 photos/train/c3/003.png >cut && mv cut photos/train/c3/003.png
  echo no picture >photos/test/c0/040.png
  fails 1 train $PHOTOS
  says "photos/test/c0/040.png: expected a PNG or JPEG picture"
  number=0
  for layout in "--workers 0" "--workers 1" "--workers 4" "--cache none" "--cache none --workers 4" "--cache disk" \
    "--threads 3 --accumulate 2"; do
    number=$((number + 1))
    [ "$(learn --on-error skip --out "run$number" $layout)" = "$wanted" ]
    grep -qx 'skipped         1 for training and 1 for testing, which could not be read' out
    [ "$(json_get skipped test_skipped <out)" = "1 1" ]
  done
  tr -d ' \n' <run1/run.json | grep -q '"skipped":{"train":1,"test":1}'
  "$HEDDLE" eval run1 >out
  grep -q '^samples   49 (1 more could not be read)$' out
  fails 1 eval run1 --on-error stop
  fails 1 predict run1 --index 4
  says "cannot be read; choose another"
}

@test "what one rank can no longer read, all leave out and count" {
  make_net
  start --data photos --batch 16 --epochs 100000 --model net.yaml --threads 1 --procs 2 --no-shuffle --cache none \
    --on-error skip --out r
  await_line '^epoch 1:'
  # Of the second half of a batch, and of the tests: rank 0 reads neither.
  rm "$(find photos/train -name '*.png' | sort | sed -n 16p)" "$(find photos/test -name '*.png' | sort | tail -n 1)"
  until tr -d ' \n' <r/last/run.json | grep -q '"skipped":{"train":1,"test":1}'; do
    await_line '^epoch [0-9]+:'
  done
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
  tr -d ' \n' <r/run.json | grep -q '"skipped":{"train":1,"test":1}'
}

@test "what a rank of another host can no longer read, all hosts leave out and count" {
  . "$SRCDIR/tests/mpi_lib.sh"
  mpi_missing
  [ -z "$MISSING" ] || skip "$MISSING"
  [ "$MPI_KIND" = openmpi ] || skip "MPICH's mpirun kills all ranks at once"
  MPI_EXTRA='--mca odls_base_sigkill_timeout 2'
  make_net
  over "a b" "$HEDDLE" train --data photos --batch 16 --epochs 100000 --model net.yaml --threads 1 --no-shuffle \
    --cache none --on-error skip --out r >out 2>err 3>&- &
  CHILD=$!
  until grep -qs 'epoch 1:' out; do # the event is the line
    kill -0 $CHILD || { cat out err; return 1; }
    sleep 0.05
  done
  rm "$(find photos/train -name '*.png' | sort | sed -n 16p)" "$(find photos/test -name '*.png' | sort | tail -n 1)"
  until tr -d ' \n' <r/last/run.json | grep -q '"skipped":{"train":1,"test":1}'; do
    kill -0 $CHILD || { cat out err; return 1; }
    sleep 0.05 # it looks again; the event is the file
  done
  ranks=$(sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' out)
  kill -TERM $CHILD $ranks
  wait $CHILD || true
  for pid in $ranks; do while [ -e "/proc/$pid" ]; do sleep 0.05; done; done # they write until then
  CHILD=
}

@test "a run that skips is resumed, on the same files alone, and no other policy" {
  make_net
  : >photos/train/c3/003.png
  wanted=$(learn --on-error skip --out whole)
  learn --on-error skip --max-steps 7 --out half >/dev/null
  "$HEDDLE" train --resume half --workers 2 --max-steps 18 >out
  [ "$(digest_of out)" = "$wanted" ]
  fails 2 train --resume half --on-error stop
  says "expected on-error skip as in that run"
  cp photos/train/c3/013.png photos/train/c3/003.png
  "$HEDDLE" train --resume half --max-steps 18 >out
  make pictures photos
  fails 2 train --resume half
  says "expected training samples with checksum"
}

@test "a picture that is damaged during a run ends it; once fixed it goes on to the same weights" {
  make_net
  PHOTOS="--data photos --batch 16 --epochs 3000 --model net.yaml --threads 2 --cache none --log-every 1"
  for workers in 0 4; do
    rm -rf half
    start $PHOTOS --out half --workers $workers
    await_line '^epoch 1, step 1:'
    kill -STOP "$CHILD"
    cp photos/train/c3/003.png saved.png
    echo no picture >photos/train/c3/003.png
    kill -CONT "$CHILD"
    finish
    [ "$code" -eq 1 ]
    grep -q 'heddle: step [0-9]*: .*photos/train/c3/003.png: expected .*; fix it, and continue with --resume half$' err
    steps=$(($(errors err | sed 's/heddle: step \([0-9]*\).*/\1/') + 15))
    fails 1 train --resume half
    says "photos/train/c3/003.png"
    mv saved.png photos/train/c3/003.png
    "$HEDDLE" train --resume half --max-steps $steps --cache none >out
    resumed=$(digest_of out)
    [ "$(learn --max-steps $steps --cache ram --out "whole$workers")" = "$resumed" ]
  done
}

@test "noise of as many classes as are asked for; ten, the same as ever, without a number" {
  for classes in 2 3 256 1000; do
    "$HEDDLE" data random:1x4x4:$classes --json >out
    [ "$(json_get samples <out)" = "$("$HEDDLE" data random:1x4x4 --json | json_get samples)" ]
    [ "$(grep -o '"per_class": *{[^}]*}\|"per_class": *\[[^]]*\]' out | tr ',' '\n' | wc -l)" -eq "$classes" ]
  done
  printf 'model: two\ninput: [1, 4, 4]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 2}\n' >two.yaml
  "$HEDDLE" train --model two.yaml --data random:1x4x4:2 --max-steps 5 --out r >out
  fails 1 train --model two.yaml --data random:1x4x4 --max-steps 5 --out s
  "$HEDDLE" data random:1x4x4 --json >ten
  "$HEDDLE" data random:1x4x4:10 --json >other
  cmp <(sed 's/:10"/"/' other) ten
}

@test "folders that are not used are said, and empty classes refused unless they are allowed" {
  make pictures photos
  cp -r photos/test photos/validation
  cp -r photos/test photos/unlabelled
  "$HEDDLE" data photos >out
  grep -qx 'note       photos: not used: unlabelled; the test set is test/' out
  rm -r photos/test photos/unlabelled
  "$HEDDLE" data photos --json >out
  [ "$(json_get test_samples <out)" = 50 ]
  no grep -q notes out
  mkdir photos/train/none photos/validation/none
  fails 1 data photos
  says "photos/train/none" "--allow-empty"
  "$HEDDLE" data photos --allow-empty --json >out
  [ "$(json_get notes.0 <out)" = "photos: 1 of 11 classes has no training samples: 10 'none'" ]
  printf 'model: m\ninput: [3, 32, 32]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 11}\n' >m.yaml
  fails 1 train --model m.yaml --data photos --max-steps 2
  "$HEDDLE" summary --model m.yaml --data photos --allow-empty >out
  "$HEDDLE" train --model m.yaml --data photos --allow-empty --max-steps 2 --out r >out
  grep -q "^photos: 1 of 11 classes has no training samples: 10 'none'$" out
  "$HEDDLE" eval r >out
}
