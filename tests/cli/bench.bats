# heddle bench: what each of them promises, in a fraction of a second each, and what they refuse.

load cli

operation="name op us gflops executed_gflops bytes bound percent_of_bound"

bench() {
  "$HEDDLE" bench "$@" --json >out 2>err || { cat out err; return 1; }
}

# points FILE: the centres of a picture's numbered circles.
points() {
  sed -nE 's/^<circle cx="([0-9.]+)" cy="([0-9.]+)" r="9" class="point".*/\1 \2/p' "$1"
}

@test "bench step --svg: no number hides another, and each roof is named once" {
  "$HEDDLE" bench step --model cnn --data random:1x28x28 --threads 1 --seconds 0.1 --svg step.svg >out
  points step.svg >centres
  [ "$(wc -l <centres)" -ge 10 ]
  awk '{ for (i = 1; i < NR; i++) if ((x[i] - $1) ^ 2 + (y[i] - $2) ^ 2 < 17 ^ 2) exit 1; x[NR] = $1; y[NR] = $2 }' \
    centres
  sed -nE 's/.*class="small roofs".*>([A-Za-z0-9]+) [0-9]+ G.*/\1/p' step.svg >roofs
  [ "$(wc -l <roofs)" -ge 2 ]
  [ -z "$(sort roofs | uniq -d)" ]
}

@test "bench step: the promised keys, a row for each operation, and a picture" {
  bench step --model simplenet --data $FEW --batch 32 --threads 2 --seconds 0.2 --svg step.svg
  for key in model batch threads samples_per_s gflops peak_gflops percent_of_peak; do
    [[ " $(json_keys <out) " == *" $key "* ]]
  done
  [ "$(json_get model batch threads <out)" = "simplenet 32 2" ]
  [ "$(json_get operations.0 <out | json_keys)" = "$operation" ]
  [[ $(json_get thread_step_us thread_peak_gflops <out) != *null* ]]
  [ "$(json_get operations.0.name operations.0.op <out)" = "fc linear" ]
  json_get cpu_share <out | awk '{ exit !($1 > 0) }'
  grep -q '^<svg xmlns' step.svg
  grep -q '</svg>' step.svg
  no grep -q nan step.svg out
  [ ! -e runs ]
}

@test "bench step: a table, with the time beside the operations" {
  "$HEDDLE" bench step --model mlp --max-steps 5 --seconds 0.2 >out
  grep -q '^mlp on digits, batch 64, .* samples/s' out
  COLUMNS=80 "$HEDDLE" bench step --model mlp --data $FEW --max-steps 5 --seconds 0.2 >out
  [ "$(wc -L <out)" -le 80 ]
  grep -Eq '^fc1 +shifted_linear_dw +[0-9].* %$' out # a row is one line
  grep -Eq '^fc1 +shifted_linear +[0-9.]+ +[0-9.]+ %' out
  grep -q '^other ' out
  grep -qx 'one step on one thread, operation by operation' out
}

@test "bench step: workers gather outside of the probe" {
  bench step --model mlp --data $FEW --workers 1 --threads 1 --seconds 0.1
  [ "$(json_get cpu_share <out)" = null ]
  no grep -q '"op": "gather"' out
}

@test "bench step: samples of any shape" {
  bench step --model "$SRCDIR/bench/models/colour.yaml" --data random:3x32x32 --batch 16 --threads 1 --seconds 0.1
  [ "$(json_get data operations.0.op <out)" = "random:3x32x32 conv2d" ]
  for data in random: random:65x8x8 random:3x8 random:1x8x300 random:1x8x8x8 random:ax8x8 random:-1x8x8 random:1x8x8: \
    random:1x8x8:1 random:1x8x8:1001 random:1x8x8:2x; do
    fails 2 bench step --data "$data"
    says "random:3x32x32"
  done
  fails 1 bench step --model simplenet --data random:1x28x29
}

@test "bench step: the networks of bench/models" {
  for model in "$SRCDIR"/bench/models/*.yaml; do
    "$HEDDLE" summary --model "$model" >out
    grep -q '^parameters: ' out
  done
}

@test "bench conv: a model's convolutions without unneeded gradients, and shapes" {
  bench conv --model lenet5 --seconds 0.2
  [ "$(grep -o '"op": "conv2d[a-z_]*"' out | sort | uniq -c | xargs)" = '2 op: conv2d 2 op: conv2d_dw 1 op: conv2d_dx' ]
  bench conv --shape 3x9x8,out=5,kernel=3x2,padding=1,stride=2 --seconds 0.2 \
    --shape 8x6x6,out=8,groups=8,kernel=5,padding=2,stride=1x2
  [ "$(grep -o '"op": "conv2d[a-z_]*"' out | wc -l)" -eq 6 ]
  [ "$(json_get operations.0.name operations.3.name <out)" = \
    "3x9x8, 5 of 3x2, stride 2, padding 1 8x6x6, 8 of 5x5, stride 1x2, padding 2, groups 8" ]
  # 5 maps of 5 x 5 outputs, 3 channels of 3 x 2: two FLOPs each
  rate=$(json_get operations.0.gflops operations.0.us <out)
  awk -v r="${rate% *}" -v us="${rate#* }" 'BEGIN { f = r * us * 1000; exit !(f > 4490 && f < 4510) }'
}

@test "bench gemm: given sizes, with or without OpenBLAS" {
  bench gemm --size 64 --size 17x65x129 --seconds 0.2
  [ "$(json_get sizes.0.m sizes.1.m sizes.1.n sizes.1.k <out)" = "64 17 65 129" ]
  HEDDLE_BLAS=none bench gemm --size 8 --seconds 0.1
  [ "$(json_get openblas sizes.0.openblas_gflops <out)" = " null" ]
}

@test "bench barrier: both barriers" {
  bench barrier --threads 2 --seconds 0.2
  [ "$(json_get threads <out)" = 2 ]
  [ "$(json_keys <out)" = "cpu threads cpus turns us us_low us_high openmp_us openmp_us_low openmp_us_high" ]
  json_get turns us_low us us_high openmp_us_low openmp_us openmp_us_high <out |
    awk '{ exit !($1 > 0 && 0 < $2 && $2 <= $3 && $3 <= $4 && 0 < $5 && $5 <= $6 && $6 <= $7) }'
}

@test "bench loader: what it delivers, with the given number of workers" {
  for workers in 0 2; do
    bench loader --data digits --workers $workers --batch 100 --seconds 0.2
    [ "$(json_keys <out)" = "cpu data workers batch samples samples_per_s low high mean std start_s stop_s" ]
    [ "$(json_get data workers batch samples <out)" = "digits $workers 100 60000" ]
    # normalised by the set's mean and standard deviation
    json_get samples_per_s mean std <out |
      awk '{ exit !($1 > 0 && $2 < 0.001 && $2 > -0.001 && $3 > 0.999 && $3 < 1.001) }'
  done
  bench loader --data random:1x4x4 --seconds 0.1
  # An epoch that drops samples has those that it delivers, and not one of the next.
  bench loader --data $FEW --batch 1000 --drop-last --seconds 0.1
  [ "$(json_get samples <out)" = 3000 ]
  fails 1 bench loader --data nowhere
}

# A python3 that prints its arguments.
fake_python() {
  mkdir -p bin
  printf '#!/bin/sh\n%s\n' "$1" >bin/python3
  chmod +x bin/python3
}

@test "bench peers: embedded scripts, run with the program's path, and cleaned up" {
  mkdir tmp
  fake_python 'ls "${1%/*}" | xargs; shift; echo "$@"; exit 7'
  code=0
  TMPDIR=$PWD/tmp PATH=$PWD/bin:$PATH "$HEDDLE" bench peers --python A --python B --work cnn --rounds 3 --threads 2 \
    --data-dir D --isa avx2 --precision bf16 --markdown >out || code=$?
  [ "$code" -eq 7 ]
  [ "$(sed -n 1p out)" = "allreduce.py ddp_rank.py jax_worker.py loader_worker.py loaders.py model_file.py "\
"mpi_allreduce.c mpi_roundtrip.c peer_work.py peers.py rpc.py torch_texts.py torch_worker.py" ]
  [[ "$(sed -n 2p out)" == "--heddle /"*"heddle --python A --python B --work cnn --rounds 3 --isa avx2 "\
"--precision bf16 --markdown --seconds 3 --threads 2 --data-dir D --batch 64" ]]
  [ -z "$(ls tmp)" ]
}

# ends_by_signal: SIGTERM to the bench in CHILD alone: it ends with its code and a line, and leaves nothing in tmp.
ends_by_signal() {
  kill -TERM "$CHILD"
  code=0
  wait "$CHILD" || code=$?
  CHILD=
  [ "$code" -eq 143 ]
  [ "$(grep -v 'left out: ' err)" = "heddle: stopped by SIGTERM, without a result; start it again" ]
  [ -z "$(ls tmp)" ]
}

@test "SIGTERM ends a bench and the program that it runs, and nothing is left" {
  mkdir tmp
  fake_python 'echo $$ >script; exec sleep 10'
  TMPDIR=$PWD/tmp PATH=$PWD/bin:$PATH "$HEDDLE" bench peers >out 2>err 3>&- &
  CHILD=$!
  until [ -s script ]; do kill -0 "$CHILD"; done
  ends_by_signal
  no kill -0 "$(cat script)" 2>/dev/null
  TMPDIR=$PWD/tmp "$HEDDLE" bench ranks --model simplenet --data $FEW --threads 1 --rounds 10 >out 2>err 3>&- &
  CHILD=$!
  until ls tmp/heddle-ranks-*/run >/dev/null 2>&1; do kill -0 "$CHILD"; done
  ends_by_signal
}

@test "SIGTERM ends the scripts with their workers and folders" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  mkdir -p tmp mnist
  "$BUILDDIR/tests/bits/make_idx" mnist 640 64
  printf '#!/bin/sh\n[ "$1" = -c ] && echo torch && exit\necho $$ >%s/worker\nexec sleep 10\n' "$PWD" >torch
  chmod +x torch
  TMPDIR=$PWD/tmp "$HEDDLE" bench peers --python ./torch --data-dir . --work simplenet --threads 1 >out 2>err 3>&- &
  CHILD=$!
  until [ -s worker ]; do kill -0 "$CHILD"; done
  ends_by_signal
  no kill -0 "$(cat worker)" 2>/dev/null
}

@test "bench loader --peers: a separate script with separate options" {
  fake_python 'basename "$1"; shift; echo "$@"'
  PATH=$PWD/bin:$PATH "$HEDDLE" bench loader --rounds 2 --peers --threads 2 --seconds 1 --json >out
  [ "$(sed -n 1p out)" = loaders.py ]
  [[ "$(sed -n 2p out)" == "--heddle /"*"heddle --rounds 2 --seconds 1 --threads 2 --json" ]]
  fails 2 bench loader --peers --workers 2
  says "--workers"
  fails 2 bench loader --rounds 2
}

@test "bench loader --peers: without peers the table has heddle alone" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  mkdir -p mnist
  "$BUILDDIR/tests/bits/make_idx" mnist 640 64
  "$HEDDLE" bench loader --peers --python ./nowhere --data-dir . --rounds 1 --seconds 0.1 --json >out 2>err
  grep -q '^PyTorch: left out: ./nowhere does not run' err
  grep -q '^JPEG pictures: left out' err
  [ "$(json_get peers works.0.peers <out)" = "[] []" ]
  [ "$(json_get works.0.heddle.median <out | cut -d . -f 1)" -gt 0 ]
}

@test "bench peers: a missing peer is reported in a line and left out" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  printf '#!/bin/sh\n[ "$1" = -c ] && echo\n' >nothing
  chmod +x nothing
  mkdir -p mnist
  "$BUILDDIR/tests/bits/make_idx" mnist 640 64
  "$HEDDLE" bench peers --python ./nothing --python ./nowhere --data-dir . --work simplenet --rounds 1 --seconds 0.1 \
    --json >out 2>err
  grep -q '^PyTorch: left out: ./nothing has none' err
  grep -q '^./nowhere: left out: it does not run' err
  [ "$(json_get peers works.0.work works.0.peers <out)" = "[] simplenet []" ]
  grep -q '^no peer was found, so these are .* install PyTorch or JAX, with numpy, for ./nothing or ./nowhere, or' err
  no grep -q searching err
  fails 1 bench peers --data-dir nowhere
  says "--data-dir"
}

# A Python with PyTorch, as far as peers.py sees: $1 is the instruction set that it reports. It writes down what limits
# it.
fake_torch() {
  cat >torch <<END
#!/bin/sh
[ "\$1" = -c ] && echo torch && exit
env | grep -E '^(HEDDLE_ISA|ATEN_|ONEDNN_|MKL_ENABLE|OPENBLAS_CORETYPE|XLA_FLAGS)' | sort >$PWD/limits
echo '{"peer": "PyTorch 0", "isa": "$1"}'
while read -r line; do
  case \$line in *'"open"'*) echo '{"settings": ["eager"]}' ;; *) echo '{"samples_per_s": 1}' ;; esac
done
END
  chmod +x torch
}

@test "bench peers --isa: heddle and its peers are limited, and one that ignores it is left out" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  HEDDLE_ISA=avx2 "$HEDDLE" topo >/dev/null 2>&1 || skip "there is no AVX2 here"
  mkdir -p mnist
  "$BUILDDIR/tests/bits/make_idx" mnist 640 64
  peers="bench peers --python ./torch --data-dir . --work simplenet --threads 1 --rounds 1 --seconds 0.1"
  fake_torch AVX2
  HEDDLE_ISA=scalar ATEN_CPU_CAPABILITY=default "$HEDDLE" $peers --isa avx2 --json >out 2>err
  [ "$(json_get isa peers.0 works.0.fastest <out)" = "avx2 PyTorch 0 PyTorch 0" ]
  [ "$(xargs <limits)" = "ATEN_CPU_CAPABILITY=avx2 HEDDLE_ISA=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 "\
"ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell XLA_FLAGS=--xla_cpu_max_isa=AVX2" ]
  "$HEDDLE" $peers --isa avx2 --markdown >out 2>err
  grep -q ', avx2, 1 CPU, float32, MNIST; ' out
  fake_torch AVX512
  "$HEDDLE" $peers --isa avx2 --json >out 2>err
  grep -q '^torch of ./torch: left out: it uses AVX512 in spite of --isa avx2' err
  [ "$(json_get peers <out)" = "[]" ]
  HEDDLE_ISA=scalar ATEN_CPU_CAPABILITY=default "$HEDDLE" $peers --json >out 2>err
  [ "$(json_get isa peers.0 <out)" = "scalar PyTorch 0" ]
  no grep -qE 'ATEN|HEDDLE|ONEDNN|MKL|XLA' limits
}

@test "bench peers --precision bf16: heddle and PyTorch are told, and texts have rows of their own" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  cat >torch <<END
#!/bin/sh
[ "\$1" = -c ] && echo torch && exit
echo '{"peer": "PyTorch 0", "isa": null}'
while read -r line; do
  echo "\$line" >>$PWD/asked
  case \$line in *'"open"'*) echo '{"settings": ["eager"]}' ;; *) echo '{"samples_per_s": 2}' ;; esac
done
END
  chmod +x torch
  mkdir -p mnist
  "$BUILDDIR/tests/bits/make_idx" mnist 640 64
  peers="bench peers --python ./torch --data-dir . --threads 1 --rounds 1 --seconds 0.1 --precision bf16"
  "$HEDDLE" $peers --work simplenet --work gpt-nano --markdown >out 2>err
  [ "$(grep -c '"precision": "bf16".*"do": "open"' asked)" -eq 2 ]
  [ "$(grep -c '"precision": "f32"' asked || true)" -eq 0 ]
  grep -q ', 1 CPU, bfloat16, MNIST; ' out
  grep -q '^| `gpt-nano`, batch 12, samples/s | [0-9,]* | 2 | [0-9.]* |$' out
  "$HEDDLE" $peers --work simplenet --json >out 2>err
  [ "$(json_get precision <out)" = bf16 ]
  fails 1 $peers --work ddp
  says "--work ddp is float32 alone"
}

@test "bench refuses what it cannot measure" {
  fails 2 bench
  says "step, conv, gemm, barrier, loader, peers, allreduce, rpc"
  fails 2 bench everything
  fails 2 bench step --seconds 0
  fails 2 bench step extra
  for layout in "--procs 2" "--device cuda:0" "--stages 2"; do
    fails 2 bench step --model simplenet --data $FEW --seconds 0.1 $layout
    says "threads of one process on the CPU, found $layout;"
  done
  fails 2 bench gemm --size 0x1x1
  fails 2 bench gemm --size 12,13
  fails 2 bench gemm --svg x.svg
  fails 1 bench conv --shape 1x2x2,out=1,kernel=5
  for shape in 3x8,out=1 3x8x8 3x8x8,out=0 3x8x8,out=1,kernel=3x 3x8x8,outer=1 1x1x1,out=1,pool=1x1; do
    fails 2 bench conv --shape "$shape"
    says "--shape expects"
  done
  fails 2 bench conv --model mlp
  fails 2 bench peers --work resnet
  says "--work expects"
  fails 2 bench peers --isa avx512
  says "--isa expects"
  fails 2 bench peers --precision tf32
  says "--precision expects"
  fails 2 bench peers --rounds 0
  fails 1 bench step --model simplenet --seconds 0.1 --svg /nowhere/x.svg
}

@test "bench allreduce: sums of two ranks, by size" {
  bench allreduce --procs 2
  [ "$(json_get ranks <out)" = 2 ]
  json_get us_by_bytes.4 us_by_bytes.33554432 shared_us_by_bytes.65536 <out |
    awk '{ exit !($1 > 0 && $2 > $1 && $3 > 0) }'
}

@test "bench allreduce and rpc refuse a single rank" {
  for what in allreduce rpc; do
    fails 2 bench $what --procs 1
    says "--procs" "2 or more"
  done
}

@test "bench rpc: calls between two ranks, by size, and calls a second" {
  bench rpc
  [ "$(json_get ranks <out)" = 2 ]
  json_get us_by_bytes.0 us_by_bytes.1048576 slow_us calls_per_s <out >found
  awk '{ exit !($1 > 0 && $2 > $1 && $3 >= $1 && $4 > 0) }' found
}

@test "bench rpc --peers: a missing peer is reported in a line and left out" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  mkdir -p bin
  printf '#!/bin/sh\nexit 1\n' >bin/mpicc
  chmod +x bin/mpicc
  PATH=$PWD/bin:$PATH "$HEDDLE" bench rpc --peers --python ./nowhere --rounds 1 --json >out 2>err
  [ "$(grep -c '^left out: ' err)" -eq 3 ]
  [ "$(json_get peers <out)" = "[]" ]
  json_get us_by_bytes.0 calls_per_s <out >found
  awk '{ exit !($1 > 0 && $2 > 0) }' found
  fails 2 bench rpc --rounds 2
}

@test "recipe_seeds: a line for each recipe, over its seeds" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 "$SRCDIR/bench/recipe_seeds" --heddle "$HEDDLE" --data digits --seeds 2 --max-steps 2 >out
  [ "$(grep -Ec '^\| `(mnist-99|fastmnist)` \| [0-9.]+ % \| [0-9.]+ \| [0-9.]+ to [0-9.]+ % \| [0-9.]+ s \|' out)" \
    -eq 2 ]
  python3 "$SRCDIR/bench/recipe_seeds" --heddle "$HEDDLE" --recipe soup 2>err && false
  recipes="fastmnist|mnist-99|cifar-94|cifar-fast|cifar-resnet|shakespeare"
  grep -q "^recipe_seeds: heddle: --recipe expects $recipes, found 'soup'" err
}

@test "bench ranks: all ways to divide the cores, the same weights, and a picture" {
  bench ranks --model simplenet --data $FEW --threads 3 --seconds 0.1 --rounds 2 --svg r.svg
  [ "$(json_keys <out)" = "cpu isa model data batch shards steps rounds settings weights_sha256" ]
  [ "$(json_get settings.0 <out | json_keys)" \
    = "cores ranks threads samples_per_s low high ratio ratio_low ratio_high startup_s" ]
  [ "$(grep -o '"ranks": [0-9]*, "threads": [0-9]*' out | tr -dc '0-9\n' | xargs)" = "11 12 21 13 31" ]
  "$HEDDLE" train --model simplenet --data $FEW --threads 1 --max-steps "$(json_get steps <out)" --epochs 100000 \
    --out one >one.out
  [ "$(json_get weights_sha256 <out)" = "$(digest_of one.out)" ]
  grep -q '^<svg xmlns' r.svg
  grep -q '</svg>' r.svg
  no grep -q nan r.svg out
  [ ! -e runs ]
  [ -z "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'heddle-ranks-*' -newer one.out)" ]
  "$HEDDLE" bench ranks --model simplenet --data $FEW --threads 1 --seconds 0.1 --rounds 1 >out
  grep -Eq '^ +1 +1 x 1 ' out
  COLUMNS=80 "$HEDDLE" bench ranks --model simplenet --data $FEW --threads 2 --seconds 0.1 --rounds 1 >out
  [ "$(wc -L <out)" -le 80 ]
  grep -Eq '^ +2 x 1 +[0-9,]+ +[0-9,]+-[0-9,]+ +[0-9.]+ [0-9.]+-[0-9.]+ +[0-9.]+$' out # a row is one line
  fails 1 bench ranks --model simplenet --data $FEW --threads 1 --seconds 0.1 --rounds 1 --svg no/such/r.svg
  fails 2 bench ranks --rounds 0
  printf 'no-shuffle: true\ndrop-last: true\nnesterov: false\n' >flags.yaml
  bench ranks --config flags.yaml --model simplenet --data $FEW --threads 1 --seconds 0.1 --rounds 1
  "$HEDDLE" train --model simplenet --data $FEW --threads 1 --max-steps "$(json_get steps <out)" --epochs 100000 \
    --no-shuffle --out two >two.out
  [ "$(json_get weights_sha256 <out)" = "$(digest_of two.out)" ]
}

@test "docs/scaling.md has the tables of bench/scaling_model" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 "$SRCDIR/bench/scaling_model" | grep '^|' >rows
  [ "$(wc -l <rows)" -gt 30 ]
  no grep -vxFf "$SRCDIR/docs/scaling.md" rows
  python3 "$SRCDIR/bench/scaling_model" --sample-us 33 | grep "^|" >other
  no cmp -s rows other
}
