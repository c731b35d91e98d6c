# heddle bisect: where two runs part, by what they say and by repeating them. tests/fault/test_bisect plants faults.

load cli

# bisect CODE ARGS...: heddle bisect must end with that code; what it prints in `out`.
bisect() {
  local wanted=$1 code=0
  shift
  timeout "$LIMIT_S" "$HEDDLE" bisect "$@" >out 2>err || code=$?
  [ "$code" -eq "$wanted" ] || { echo "bisect $*: expected exit code $wanted, found $code:"; cat out err; return 1; }
}

# Which step, what, which element, in JSON.
found() {
  json_get step what index <out
}

@test "equal runs are equal, however they were laid out" {
  train --out a --save-every 10
  train --out b --save-every 10 --threads 2 --accumulate 2
  bisect 0 a b
  grep -q '^runs  *equal: 50 steps have equal losses$' out
  train --out shorter --max-steps 20
  bisect 0 a shorter
  grep -q '20 steps' out
}

@test "of a run that was killed the steps that it took are compared" {
  train --out a
  for run in b c; do
    train --out $run --max-steps 20
    sed -i '$d' $run/history.jsonl
    truncate -s 65536 $run/losses.bin # as a kill leaves them
  done
  for pair in "a b" "b a" "b c"; do
    bisect 0 $pair
    grep -q ' 20 steps have equal losses$' out
  done
}

@test "a setting is found in the first result that it changes" {
  train --out a
  train --out b --lr 0.002
  bisect 3 a b --json
  [ "$(found)" = "1 fc.weight, update [0, 0]" ]
  [ "$(json_get loss_step from replays settings <out)" = '2 0 3 lr: expected "0.001", found "0.002"' ]
  train --out c --seed 1
  bisect 3 a c --json
  [ "$(found)" = "0 fc.weight, first weights [0, 0]" ]
}

@test "a run whose losses are not those of its settings is named" {
  train --out a --save-every 10 --max-steps 40 --epochs 1
  "$HEDDLE" train --resume a/step-20 --out b --save-every 10 >/dev/null
  bisect 0 a b
  cp -r a c
  bisect 0 a c
  printf '\001' | dd of=c/losses.bin bs=1 seek=240 conv=notrunc status=none
  bisect 3 a c --json
  [ "$(json_get verdict loss_step from replays <out)" = "not repeated 31 30 2" ]
  [[ "$(json_get why <out)" == "c: step 31 has the loss"*"when it is repeated: the file was changed"* ]]
}

@test "another sample is found in the samples, another label in the targets" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 - <<'END'
import os, struct
def npy(path, shape, raw):
    head = ("{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }" % shape).ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + raw)
x = bytes((i * 37 + i // 5 * 11) % 256 for i in range(640 * 16))
y = bytes(i * i % 3 for i in range(640))
def data(folder, x, y):
    os.mkdir(folder)
    npy(folder + "/x_train.npy", "640, 1, 4, 4", x)
    npy(folder + "/y_train.npy", "640,", y)
    npy(folder + "/x_test.npy", "64, 1, 4, 4", x[:1024])
    npy(folder + "/y_test.npy", "64,", y[:64])
data("one", x, y)
data("label", x, y[:100] + bytes([(y[100] + 1) % 3]) + y[101:])
END
  printf 'model: m\ninput: [1, 4, 4]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 3}\n' >m.yaml
  for data in one label; do
    train --model m.yaml --data $data --no-shuffle --epochs 1 --max-steps 10 --out of-$data
  done
  bisect 3 of-one of-label --json
  [ "$(found)" = "2 targets [36]" ]
  [ "$(json_get ulps <out)" = -1 ]
  rm -r label
  bisect 4 of-one of-label
  grep -q '^runs  *not comparable: .*label' out
}

@test "weights that differ though all losses are equal are named" {
  train --out a
  cp -r a b
  printf '\001' | dd of=b/step-50/model.safetensors bs=1 seek=2000 conv=notrunc status=none
  for pair in "a b" "b a"; do
    bisect 3 $pair --json
    [[ "$(json_get why <out)" == "b/step-50/model.safetensors: expected the checksum in run.json"* ]]
  done
  read -r expected found < <(sed -E 's/.*in run.json, ([0-9a-f]*), found ([0-9a-f]*);.*/\1 \2/' out)
  sed -i "s/$expected/$found/" b/step-50/run.json
  bisect 3 a b
  grep -q '^runs  *not repeated: weights of b differ from those of a at step 50, though their losses are equal' out
  cp b/step-50/model.safetensors a/step-50/
  bisect 3 a b
  grep -q '^runs  *not repeated: a/step-50/model.safetensors: expected the checksum in run.json' out
}

@test "a planted fault is found where it was planted" {
  train --out a --save-every 10
  mkdir tmp
  export TMPDIR=$PWD/tmp
  bisect 3 a --inject 23,7,5 --json
  [ "$(json_get planted <out)" = "$(json_get what index <out)" ]
  [ "$(json_get step ulps <out)" = "23 1" ]
  [ -z "$(ls -A tmp)" ]
}

@test "a planted fault is found behind an epoch's end" {
  "$HEDDLE" train --model simplenet --data "$FEW" --batch 1920 --epochs 3 --out a >out
  bisect 3 a --inject 5,1 --json
  [ "$(json_get step <out)" = 5 ]
}

# dump FILE [NAME [INDEX]]: what the run r says of its first three steps, as another program would; with an element that
# is 1 % off, or with a tensor more, of a single number.
dump() {
  python3 - "$@" <<'END'
import array, json, struct, sys
tensors = {"losses": ("F64", [3], array.array("d", open("r/losses.bin", "rb").read()[:24]))}
for step in 1, 2, 3:
    raw = open("r/step-%d/model.safetensors" % step, "rb").read()
    length, = struct.unpack("<Q", raw[:8])
    for name, t in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            values = array.array("f", raw[8 + length + begin:8 + length + end])
            tensors["%d/%s" % (step, name)] = ("F32", t["shape"], values)
if len(sys.argv) == 3:
    tensors[sys.argv[2]] = ("F32", [], array.array("f", [1]))
elif len(sys.argv) > 3:
    values = tensors[sys.argv[2]][2]
    values[int(sys.argv[3])] += 0.01 * max(map(abs, values))
header, body = {}, b""
for name, (kind, shape, values) in tensors.items():
    header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(values.tobytes())]}
    body += values.tobytes()
text = json.dumps(header)
text += " " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text.encode() + body)
END
}

@test "another program's results are compared within a tolerance" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  train --out r --save-every 1 --keep 99 --max-steps 5
  dump same
  bisect 0 r same
  grep -q 'equal: 3 steps and 23550 elements are equal within 0.001' out
  dump number 1/fc
  bisect 0 r number # which has no samples: it is not compared
  dump weight 2/fc.weight 789
  bisect 3 r weight --json
  [ "$(found)" = "2 fc.weight, update [1, 5]" ]
  bisect 0 r weight --tolerance 0.02
  dump loss losses 2
  bisect 3 r loss --json
  [ "$(json_get step loss_step what <out)" = "3 3 loss of the batch" ]
  head -c 200 same >short
  fails 1 bisect r short
  cp r/last/model.safetensors unlike
  fails 1 bisect r unlike
  says "expected a tensor 'losses' of F64"
}

@test "what cannot be compared, and wrong usage" {
  train --out a
  train --out b --batch 32
  bisect 4 a b
  grep -q 'do not compute the same results' out
  train --out c --model mlp
  bisect 4 a c
  rm a/losses.bin
  bisect 4 a b
  grep -q 'a/losses.bin: expected the loss of each step, found none' out
  fails 1 bisect b nosuch
  fails 2 bisect b
  fails 2 bisect b --inject nonsense
  for place in 5,nope,3 5,fc.weight,3 5, 5,1,x 5,1,2,3; do
    fails 2 bisect b --inject $place
    says "found '$place'" "RESULT" "from 0"
  done
  fails 2 bisect b --inject 99,1
  says "from 1 to 50"
  fails 2 bisect b --inject 5,99999
  says "to plant a fault in"
}
