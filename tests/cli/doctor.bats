# heddle doctor: every finding, provoked; the exit code; what a healthy machine must not show.
#
# Other programs on the machine may show as `busy` at any time, so a test looks for one finding alone.

load cli

# finding ID ARGS...: heddle doctor ARGS must find it and end with 3; the finding is left in $found, its factor in
# $factor.
finding() {
  local id=$1 code=0
  shift
  "$HEDDLE" doctor --json "$@" >out 2>err || code=$?
  found=$(grep -o "{\"id\": \"$id\"[^}]*}" out) || { echo "expected the finding $id, found: $(cat out err)"; return 1; }
  [ "$code" -eq 3 ] || { echo "expected exit code 3, found $code: $(cat out err)"; return 1; }
  factor=$(echo "$found" | sed 's/.*"factor": \([^,]*\),.*/\1/')
}

# silent_on ID ARGS...: it must not.
silent_on() {
  local id=$1 code=0
  shift
  "$HEDDLE" doctor --json "$@" >out 2>err || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || { cat err; return 1; }
  no grep -q "\"id\": \"$id\"" out
}

holds() { # TEXT...: the finding does
  local text
  for text; do
    [[ "$found" == *"$text"* ]] || { echo "expected '$text', found: $found"; return 1; }
  done
}

above() { # NUMBER: the factor is
  awk -v f="$factor" -v n="$1" 'BEGIN { exit !(f != "null" && f + 0 > n) }' ||
    { echo "expected a factor above $1: $found"; return 1; }
}

made_up_host() { # QUOTA (cgroup version 2)
  mkdir -p root/sys/fs/cgroup/job root/proc/self
  echo "0::/job" >root/proc/self/cgroup
  echo "$1" >root/sys/fs/cgroup/job/cpu.max
  export HEDDLE_SYSROOT=$PWD/root
}

@test "the report names its checks and, with --json, is one object with the promised keys" {
  code=0
  "$HEDDLE" doctor --threads 1 >out || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ]
  grep -Eq '^13 checks for a run of 1 thread on [0-9]+ CPUs?, with kernels and block sizes for [a-z0-9]+: quota, '\
'oversubscribed, blas-core, isa, smt-pairs, ' out
  HEDDLE_ISA=scalar "$HEDDLE" doctor --json --threads 1 >out || code=$?
  [ "$code" -eq 3 ]
  [ "$(wc -l <out)" -eq 1 ]
  [ "$(json_keys <out)" = findings ]
  [ "$(json_get findings.0 <out | json_keys)" = "id factor measured remedy" ]
}

@test "each finding has lines of its own, and says of what its factor is" {
  made_up_host "100000 100000"
  "$HEDDLE" doctor --threads 4 >out || [ $? -eq 3 ]
  sed -n '/^quota$/,/^$/p' out >quota
  grep -q '^  found:  4 threads under a quota of 1 CPUs' quota
  grep -q '^  remedy: .*--threads 1' quota
  no grep -v -x -e 'quota' -e '  found:  .*' -e '  cost:   what was measured took [0-9.]* times as long' \
    -e '  remedy: .*' -e '' quota
}

@test "more threads than the quota allows" {
  made_up_host "100000 100000"
  finding quota --threads 4
  holds "4 threads under a quota of 1 CPUs" "use --threads 1"
  silent_on quota --threads 1
  made_up_host "max 100000"
  silent_on quota --threads 4
  made_up_host "200000 100000"
  OMP_NUM_THREADS=3 finding quota
  holds "unset OMP_NUM_THREADS, or export OMP_NUM_THREADS=2"
}

@test "more threads than CPUs, and what that costs" {
  command -v taskset >/dev/null || skip "taskset is not installed"
  cpu=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
  printf '#!/bin/sh\nexec taskset -c %s %s "$@"\n' "$cpu" "$HEDDLE" >doctor
  chmod +x doctor
  HEDDLE=$PWD/doctor
  for try in 1 2 3 4 5; do # a busy machine may disturb one
    finding oversubscribed --threads 8
    holds "8 threads share 1 CPU" "use --threads 1"
    ! above 1 || break
  done
  above 1
  silent_on oversubscribed --threads 1
}

@test "a BLAS that runs kernels of an old CPU" {
  PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q 'libopenblas\.so\.0' || skip "OpenBLAS is not installed"
  grep -q ' avx2 ' /proc/cpuinfo || skip "this CPU is as old"
  HEDDLE_BLAS=none silent_on blas-core --threads 1
  OPENBLAS_CORETYPE=Prescott finding blas-core --threads 1
  holds "GFLOP/s" "unset OPENBLAS_CORETYPE"
  above 1.5
}

@test "an instruction set below the CPU's" {
  HEDDLE_ISA=scalar finding isa --threads 1
  holds "scalar kernels run although this CPU has" "unset HEDDLE_ISA"
  above 1.2
  silent_on isa --threads 1
}

@test "two OpenMP runtimes in the process" {
  mkdir -p root/proc/self
  printf '7f-8f r-xp 0 0:0 1 /usr/lib/libgomp.so.1.0.0\n8f-9f r-xp 0 0:0 2 /opt/lib/libiomp5.so\n' >root/proc/self/maps
  HEDDLE_SYSROOT=$PWD/root finding omp-runtimes --threads 2
  holds "2 OpenMP runtimes (libgomp.so.1.0.0, libiomp5.so), 4 threads in all"
  silent_on omp-runtimes --threads 1
  for runtime in /usr/lib/llvm-*/lib/libomp.so.5 /usr/lib/*/libgomp.so.1; do
    [ -e "$runtime" ] || continue
    name=${runtime##*/}
    ! ldd "$BUILDDIR/.libs/libheddle.so" | grep -q "${name%%.so*}" || continue # the build links it
    [ -z "$(LD_PRELOAD=$runtime cat /dev/null 2>&1)" ] || continue # one of another architecture, for a cross compiler
    LD_PRELOAD=$runtime finding omp-runtimes --threads 1
    holds libomp libgomp
    return 0
  done
  skip "no second OpenMP runtime is installed"
}

@test "other programs on the same CPU" {
  command -v taskset >/dev/null || skip "taskset is not installed"
  cpu=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
  printf '#!/bin/sh\nexec taskset -c %s %s "$@"\n' "$cpu" "$HEDDLE" >doctor
  chmod +x doctor
  HEDDLE=$PWD/doctor
  taskset -c "$cpu" sh -c 'while :; do :; done' 3>&- &
  CHILD=$!
  finding busy --threads 1
  holds "other programs used" top
  above 1.3
}

@test "huge pages that are switched off" {
  mkdir -p root/sys/kernel/mm/transparent_hugepage
  export HEDDLE_SYSROOT=$PWD/root
  echo "always madvise [never]" >root/sys/kernel/mm/transparent_hugepage/enabled
  finding huge-pages --threads 1
  holds "echo madvise"
  echo "always [madvise] never" >root/sys/kernel/mm/transparent_hugepage/enabled
  silent_on huge-pages --threads 1
}

@test "a limit on locked memory" {
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  cat >limited <<EOF
#!/bin/sh
ulimit -l 64
exec setpriv --inh-caps -ipc_lock --bounding-set -ipc_lock $HEDDLE "\$@"
EOF
  chmod +x limited
  setpriv --bounding-set -ipc_lock true 2>/dev/null || skip "privileges may not be dropped here"
  HEDDLE=$PWD/limited
  finding memlock --threads 1
  holds "ulimit -l"
  [ "$("$HEDDLE" devices --json | json_get gpus)" != "[]" ] || no holds GPU
  [ "$factor" = null ]
}

@test "a small /dev/shm" {
  [ "$(id -u)" -eq 0 ] || skip "only root may mount a small file system"
  mkdir -p root/dev/shm
  mount -t tmpfs -o size=1m none root/dev/shm || skip "mounting is not possible here"
  MOUNTED=$PWD/root/dev/shm
  HEDDLE_SYSROOT=$PWD/root finding shm-size --threads 1
  holds "room for 1 MiB" "--shm-size"
}

@test "what is no question for a doctor" {
  fails 2 doctor --threads 0
  fails 2 doctor me
  says "found 'me'"
  HEDDLE_ISA=mmx fails 1 doctor
  says HEDDLE_ISA "'mmx'"
}
