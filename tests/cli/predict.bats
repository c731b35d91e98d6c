# heddle predict: pictures, items of a data set, those that fail, and JSON. What is recognised is tested by
# tests/unit/test_predict.

load cli

@test "items of a data set, and their label" {
  train --data digits --out r
  "$HEDDLE" predict r --index 3 --index 5 >out
  [ "$(wc -l <out)" -eq 2 ]
  grep -Eq '^digits\[3\] +[0-9] +[0-9.]+ %   then [0-9] \([0-9.]+ %\), [0-9] \([0-9.]+ %\)   label 7$' out
  "$HEDDLE" predict r --index 3 >out
  [ "$(wc -l <out)" -eq 12 ] # all ten classes for a single one
  for each in predict eval verify bisect; do
    "$HEDDLE" $each --help >out
    grep -q "(default the run's)" out
  done
}

@test "the JSON of predictions" {
  train --data digits --out r
  "$HEDDLE" predict r --index 3 --index 5 --json >out
  [ "$(wc -l <out)" -eq 1 ]
  [ "$(json_keys <out)" = predictions ]
  [ "$(json_get predictions.0.file predictions.0.index predictions.0.label predictions.1.index <out)" = "digits 3 7 5" ]
  [ "$(json_get predictions.1.probabilities <out | tr ',' '\n' | wc -l)" -eq 10 ]
  fails 1 predict r none.png --json
  [ "$(json_get predictions <out)" = "[]" ]
}

@test "the mistakes of a run are a picture like any other" {
  train --out r
  "$HEDDLE" predict r r/wrong.png --threads 2 >out
  grep -q '^r/wrong.png ' out
}

@test "a picture that fails does not keep the others from being predicted" {
  train --out r
  head -c 100 r/wrong.png >cut.png
  echo text >text.png
  code=0
  "$HEDDLE" predict r cut.png r/wrong.png text.png none.png --index 3 >out 2>err || code=$?
  [ "$code" -eq 1 ]
  [ "$(wc -l <out)" -eq 2 ]
  [ "$(wc -l <err)" -eq 3 ]
  grep -q '^heddle: cut.png: expected a whole PNG picture, found: .*; save the picture again' err
  grep -q '^heddle: text.png: expected a PNG or JPEG picture, found another format; convert it' err
  grep -q '^heddle: none.png: cannot read it: ' err
}

@test "a model in colour takes pictures through its run's transforms, as items of a data set" {
  "$BUILDDIR/tests/bits/make_data" pictures photos 140 50
  printf 'model: net\ninput: [3, 24, 24]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >net.yaml
  "$HEDDLE" train --data photos --model net.yaml --epochs 1 --out r \
    --transforms '[{random_resized_crop: 24}, horizontal_flip, to_float, normalise]' >out
  for i in 0 3; do
    "$HEDDLE" predict r --index $((5 * i)) --json >item
    "$HEDDLE" predict r photos/test/c$i/00$i.png --json >file
    [ "$(json_get predictions.0.probabilities <item)" = "$(json_get predictions.0.probabilities <file)" ]
  done
  "$HEDDLE" data random:1x8x8 --sheet large.png >out
  "$HEDDLE" predict r large.png >out
  "$HEDDLE" train --data photos --model net.yaml --epochs 1 --out plain --transforms '[{resize: 24}, to_float]' >out
  "$HEDDLE" predict plain large.png >out
  sed -i 's/24, 24/32, 32/' net.yaml
  "$HEDDLE" train --data photos --model net.yaml --epochs 1 --out exact >out
  "$HEDDLE" predict exact photos/test/c0/000.png >out
  fails 1 predict exact large.png
  says "large.png: expected a picture of 32x32"
}

# grey FILE WIDTH SHIFT: an 8-bit grey picture, light at its border and dark within.
grey() {
  python3 - "$@" <<'END' || skip "python3 is not there"
import struct, sys, zlib
path, side, shift = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = b"".join(b"\0" + bytes(250 - shift - (180 - x * y % 7 if 1 < x < side - 2 and 1 < y < side - 2 else x * y % 9)
                              for x in range(side)) for y in range(side))
chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
}

@test "a grey picture of class folders is that sample, not a drawing to invert" {
  mkdir -p shades/train/dark shades/train/light shades/test/dark shades/test/light
  for i in 0 1 2 3 4 5 6 7; do
    for set in train test; do
      grey shades/$set/dark/$i.png 9 $((40 + i))
      grey shades/$set/light/$i.png 9 $i
    done
  done
  grey large.png 18 3
  "$HEDDLE" train --data shades --model mlp --epochs 9 --lr 0.01 --out r >out
  for i in 3 10; do
    class=$([ $i = 3 ] && echo dark || echo light)
    "$HEDDLE" predict r --index $i --json >item
    "$HEDDLE" predict r shades/test/$class/$((i % 8)).png --json >file
    [ "$(json_get predictions.0.probabilities <item)" = "$(json_get predictions.0.probabilities <file)" ]
    [ "$(json_get predictions.0.class_name <file)" = $class ]
  done
  fails 1 predict r large.png
  says "large.png: expected a picture of 9x9, or a run whose transforms resize it, found 18x18"
  "$HEDDLE" train --data shades --model mlp --epochs 1 --transforms '[{resize: 6}, to_float]' --out small >out
  "$HEDDLE" predict small large.png >out
  grep -q '^large.png ' out
}

@test "a run on rows takes no picture" {
  train --out r
  awk 'BEGIN { print "a,b,c,label"; for (i = 0; i < 50; i++) printf "%d,%d,%d,%d\n", i, i % 7, i % 3, i % 3 }' >rows.csv
  "$HEDDLE" train --data rows.csv --model mlp --epochs 1 --out rows >out
  fails 1 predict rows r/wrong.png
  says "r/wrong.png: the model reads rows of 3 numbers, found a picture; give a .csv or .npy file"
}

@test "wrong usage of predict" {
  fails 2 predict
  says "expects a checkpoint"
  fails 1 predict none --index 3
  says none
  train --out r
  fails 2 predict r
  says "--index"
  for index in -1 x '' 1.5 99999999999999999999; do
    fails 2 predict r --index "$index"
    says "--index expects"
  done
  fails 2 predict r --index 600
  says "599" "600"
  fails 2 predict r --epochs 3
  fails 1 predict r --index 3 --data none
  says "'none'"
}

@test "a folder of pictures: a line each, as many classes as asked for, and a table" {
  "$BUILDDIR/tests/bits/make_data" pictures photos 140 50
  printf 'model: net\ninput: [3, 32, 32]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n' >net.yaml
  "$HEDDLE" train --data photos --model net.yaml --epochs 1 --out r >out
  mkdir -p some/inside/.hidden empty
  cp photos/test/c0/*.png some
  cp photos/test/c1/*.png some/inside
  cp photos/test/c2/*.png some/inside/.hidden
  echo text >some/notes.txt
  COLUMNS=80 "$HEDDLE" predict r some --csv t.csv >out
  [ "$(wc -l <out)" -eq 10 ]
  [ "$(awk 'length > 80' out)" = "" ]
  sort -c <(cut -d ' ' -f 1 out)
  grep -Eq '^inside/[0-9]+.png +[0-9] c[0-9] +[0-9.]+ %   then [0-9] c[0-9] \([0-9.]+ %\)' out
  [ "$(head -n 1 t.csv)" = "file,class,name,probability,c0,c1,c2,c3,c4,c5,c6,c7,c8,c9" ]
  [ "$(wc -l <t.csv)" -eq 11 ]
  grep -q '^some/inside/' t.csv
  "$HEDDLE" predict r some --top 1 >out 2>err
  no grep -q then out
  grep -qF 'note: some: 1 file is no picture (.png, .jpg, .jpeg) and is left out: some/notes.txt' err
  echo text >some/inside/more.txt
  "$HEDDLE" predict r some --json >out 2>err
  [ "$(json_get predictions <out | grep -o '"file"' | wc -l)" -eq 10 ]
  grep -qF 'some: 2 files are no pictures (.png, .jpg, .jpeg) and are left out: some/inside/more.txt, ...' err
  rm some/notes.txt some/inside/more.txt
  "$HEDDLE" predict r some >out 2>err
  [ ! -s err ]
  "$HEDDLE" predict r some --top 5 >out
  [ "$(grep -o '(' out | wc -l)" -eq 40 ]
  "$HEDDLE" predict r some --json >out
  [ "$(json_get predictions.0.file <out)" = "$(ls some/*.png | head -n 1)" ]
  fails 1 predict r empty
  says empty 'pictures (.png, .jpg, .jpeg)'
  fails 2 predict r some --top 0
  says --top
  fails 1 predict r some --csv nowhere/t.csv
  says nowhere/t.csv
  echo kept >t.csv
  fails 1 predict r nowhere.csv --csv t.csv
  [ "$(cat t.csv)" = kept ] && nothing_half_written
  echo text >some/bad.png
  code=0
  "$HEDDLE" predict r some --csv t.csv >out 2>err || code=$?
  [ "$code" -eq 1 ]
  [ "$(wc -l <out) $(wc -l <t.csv)" = "10 11" ]
  grep -q '^heddle: some/bad.png: ' err
}

@test "a table of predictions has the digits of its numbers" {
  awk 'BEGIN { print "a,b,price"
    for (i = 0; i < 50; i++) printf "%d,%d,%d.5\n", i, i % 7, 1234567 + i * 1001 }' >rows.csv
  "$HEDDLE" train --data rows.csv --model regression --epochs 1 --out r >out
  "$HEDDLE" predict r rows.csv --csv t.csv --json >out
  tail -n 1 out | grep -o '"outputs": \[[^]]*' | sed 's/.*\[//' >exact
  tail -n +2 t.csv | cut -d , -f 2 | paste - exact >both
  [ "$(wc -l <both)" -eq 50 ]
  [ "$(awk '{ d = $1 - $2; if (d > $2 * 1e-8 || -d > $2 * 1e-8) print }' both)" = "" ]
}

@test "a link to a folder that is listed already lists no picture twice" {
  train --out r
  mkdir -p some/inside other
  cp r/wrong.png some/a.png
  cp r/wrong.png some/inside/b.png
  cp r/wrong.png other/c.png
  ln -s . some/loop
  ln -s ../inside some/inside/loop
  ln -s inside some/again
  ln -s ../other some/also
  ln -s ../other some/zzz
  ln -s c.png other/d.png
  "$HEDDLE" predict r some >out 2>err
  [ "$(cut -d ' ' -f 1 out | tr '\n' ' ')" = "a.png also/c.png also/d.png inside/b.png " ]
  # many folders, more than the first table of them holds
  mkdir -p many/{0..19}/{0..19}
  "$BUILDDIR/tests/bits/make_data" pictures photos 10 10
  small=$(find photos -name '*.png' | head -n 1)
  for folder in many/*/*; do ln "$small" "$folder/a.png"; done
  for i in {0..19}; do ln -s "../many/$i" "many/$i/0/up"; done
  "$HEDDLE" predict r many --csv many.csv >out 2>err
  [ "$(tail -n +2 many.csv | cut -d , -f 1 | sort -u | wc -l)" -eq 400 ]
  [ "$(wc -l <many.csv)" -eq 401 ]
}
