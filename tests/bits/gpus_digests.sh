#!/bin/sh
# TAP: the digests of bits.sh on several GPUs, of one process and of several ranks. A stub of the driver has them, and
# reports which of them worked, and whether they copied from each other; with HD_GPU=real, those of this machine, if it
# has enough.
. "$SRCDIR/tests/bits/trained.sh"
. "$SRCDIR/tests/cuda/which_gpu.sh"
. "$SRCDIR/tests/mpi_lib.sh"
kernels=scalar workers=0 MPI_EXTRA=
if [ "${HD_GPU:-stub}" = real ]; then there=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU'); else there=4; fi
[ "$there" -le "${HD_MOST_GPUS:-8}" ] || there=$HD_MOST_GPUS
STUB_CUDA_GPUS=4
export STUB_CUDA_GPUS

# each_worked GPUS: whether the stub reports so many, each with kernels, and with or without bytes from others.
each_worked() { # GPUS COPIES
  [ "${HD_GPU:-stub}" = real ] && return
  worked=$(cut -d ' ' -f 1 "$STUB_CUDA_TOLD" | sort -u | wc -l)
  few=$(awk -v copies="$2" '$2 < 100 || ($3 > 0) != copies' "$STUB_CUDA_TOLD")
  [ "$worked" -eq "$1" ] && [ -z "$few" ]
}

# on_gpus GPUS EXPERIMENT HOW [OPTIONS]: in one process.
on_gpus() {
  list=$(seq -s , 0 $(($1 - 1)))
  ranks=1 extra="--device cuda:$list $4"
  STUB_CUDA_TOLD=$folder/told
  export STUB_CUDA_TOLD
  rm -f "$STUB_CUDA_TOLD"
  check_run "$2" "$gpu" 2 1 "$3"
  name="$1 GPUs worked"
  if each_worked "$1" $(($1 > 1)); then result pass "$name"
  else result fail "$name" "$(cat "$STUB_CUDA_TOLD")"; fi
  unset STUB_CUDA_TOLD
}

# on_ranks RANKS EXPERIMENT HOW [OPTIONS]: a GPU each.
on_ranks() {
  ranks=$1 extra="--device cuda --procs $1 $4"
  STUB_CUDA_TOLD=$folder/told
  export STUB_CUDA_TOLD
  rm -f "$STUB_CUDA_TOLD"
  check_run "$2" "$gpu" 1 1 "$3"
  name="$1 GPUs worked"
  if each_worked "$1" 0; then result pass "$name"
  else result fail "$name" "$(cat "$STUB_CUDA_TOLD")"; fi
  unset STUB_CUDA_TOLD
}

# on_hosts HOSTS EXPERIMENT: a GPU for each rank, of its host.
on_hosts() {
  eval "wanted=\$$2_digest options=\$$2"
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  over "$1" "$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --json --threads 1 $options --device cuda \
    --out "$folder/run" >"$folder/json" 2>"$folder/err"
  found="$(value ranks "$folder/json") $(value isa "$folder/json") $(value weights_sha256 "$folder/json")"
  name="$2, GPUs of ranks on $1"
  if [ "$found" = "$(echo "$1" | wc -w) $gpu $wanted" ]; then result pass "$name"
  else result fail "$name" "expected $wanted, found $found $(cat "$folder/err")"; fi
}

if [ "$there" -lt 2 ]; then
  result skip "several GPUs: there is one at most"
elif gpu=$(gpu_arch "$folder"); then
  # Each experiment on three GPUs, whose shares differ, and on two or four.
  even="2 4"
  for experiment in ${HD_EXPERIMENTS:-adamw sgd mixed norm shard shared rules wide}; do
    even="${even#* } ${even% *}"
    [ "$there" -gt 2 ] || even="2 2"
    for gpus in 3 ${even% *}; do
      [ "$gpus" -gt "$there" ] || on_gpus "$gpus" $experiment whole ""
    done
  done
  workers=2
  on_gpus 2 adamw whole "--workers 2 --prefetch-factor 1"
  on_ranks 2 mixed whole "--workers 2 --prefetch-factor 1"
  workers=0
  on_gpus 2 norm stopped ""
  for experiment in ${HD_EXPERIMENTS:-adamw mixed norm shard rules}; do
    even="${even#* } ${even% *}" # one after the other
    [ "$there" -gt 2 ] && [ "${even% *}" = 4 ] && gpus=3 || gpus=2
    on_ranks $gpus $experiment whole ""
  done
  on_ranks 2 norm stopped ""
  mpi_missing
  if [ -z "$MISSING" ]; then
    on_hosts "a b" adamw
    on_hosts "a b a" norm
    on_hosts "a b c" mixed
    on_hosts "- -" rules
  else result skip "GPUs of several hosts: $MISSING"; fi
else
  result skip "several GPUs: $gpu"
fi
echo "1..$count"
