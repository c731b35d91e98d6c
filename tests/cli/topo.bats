# heddle topo: against the system's tools, on synthetic machines and cgroups, and its errors.

load cli

keys="packages numa l3 cores pus kinds memory_bytes model budget mask quota why threads caches core_kinds cpus"

# topo ARGS...: JSON in `out`.
topo() {
  "$HEDDLE" topo --json "$@" >out
}

# machine DESCRIPTION ARGS...: the same of a made-up machine.
machine() {
  local description=$1
  shift
  HWLOC_SYNTHETIC=$description HEDDLE_SYSROOT=$PWD/nowhere topo "$@"
}

# threads: the CPUs of all threads in `out`.
threads() {
  json_get threads <out | grep -o '"cpu":[a-z0-9]*' | cut -d: -f2 | xargs
}

# one_cpu: a CPU of the affinity mask.
one_cpu() {
  taskset -pc $$ | sed 's/.*: *//; s/[-,].*//'
}

# cgroup FOLDER FILE TEXT, member TEXT: a recorded system below ./root.
cgroup() {
  mkdir -p "root/sys/fs/cgroup/$1"
  printf '%s\n' "$3" >"root/sys/fs/cgroup/$1/$2"
}

member() {
  mkdir -p root/proc/self
  printf '%b' "$1" >root/proc/self/cgroup
}

@test "--json: the promised keys, numbers as nproc, lscpu and hwloc have them" {
  HEDDLE_SYSROOT=$PWD/nowhere topo
  [ "$(wc -l <out)" -eq 1 ]
  [ "$(json_keys <out)" = "$keys" ]
  [ "$(json_get budget mask quota <out)" = "$(nproc) $(nproc) null" ]
  if command -v lscpu >/dev/null; then
    lscpu -p=CPU,CORE,SOCKET,NODE | grep -v '^#' >list
    [ "$(json_get pus <out)" -eq "$(wc -l <list)" ]
    [ "$(json_get cores <out)" -eq "$(cut -d, -f2 list | sort -u | wc -l)" ]
    [ "$(json_get packages <out)" -eq "$(cut -d, -f3 list | sort -u | wc -l)" ]
  fi
  if command -v hwloc-calc >/dev/null; then
    [ "$(json_get cores pus numa <out)" = \
      "$(for kind in core pu numanode; do hwloc-calc --disallowed -N $kind all; done | xargs)" ]
  fi
}

@test "a mask of one CPU: a budget of one, one thread there, and a run with one thread" {
  command -v taskset >/dev/null || skip "taskset is not installed"
  cpu=$(one_cpu)
  taskset -c "$cpu" "$HEDDLE" topo --json >out
  [ "$(json_get budget mask threads <out)" = "1 1 [{\"thread\":0,\"cpu\":$cpu}]" ]
  taskset -c "$cpu" "$HEDDLE" train $TINY --json >out
  [ "$(json_get threads <out)" = 1 ]
}

@test "what binds an OpenMP program leaves the budget as it is" {
  "$HEDDLE" topo >out
  for setting in OMP_PROC_BIND=true OMP_PLACES=threads OMP_PROC_BIND=close; do
    env "$setting" "$HEDDLE" topo >bound
    diff <(grep '^budget' out) <(grep '^budget' bound)
  done
}

@test "limits of OpenMP's variables are obeyed and named" {
  OMP_THREAD_LIMIT=1 "$HEDDLE" topo --threads 2 >out
  grep -qx 'threads 1: as asked for.*; OMP_THREAD_LIMIT allows 1.*' out
  OMP_THREAD_LIMIT=2 "$HEDDLE" topo --threads 2 >out
  no grep -q OMP_THREAD_LIMIT out
  [ "$(nproc)" -ge 2 ] || skip "there is one CPU"
  cpu=$(one_cpu)
  for setting in "OMP_PLACES={$cpu}" "GOMP_CPU_AFFINITY=$cpu"; do # a build without an OpenMP runtime has all CPUs
    env "$setting" "$HEDDLE" topo >out
    grep -q "^budget  1 CPU: ${setting%%=*} allows 1 of" out || grep -q "^budget  $(nproc) CPUs: " out
  done
}

@test "recorded cgroups, version 2: the tightest quota of all ancestors" {
  export HEDDLE_SYSROOT=$PWD/root HWLOC_SYNTHETIC="core:8 pu:2"
  member '0::/a/b/c\n'
  cgroup a/b/c cpu.max 'max 100000'
  topo
  [ "$(json_get budget <out)" = 16 ]
  cgroup a/b cpu.max '800000 100000'
  cgroup a cpu.max '150000 100000'
  topo
  [ "$(json_get budget quota <out)" = "1 1.5" ]
  [[ "$(json_get why <out)" == *"root/sys/fs/cgroup/a/cpu.max"* ]]
  cgroup a/b cpu.max '100000 100000'
  topo
  [ "$(json_get budget quota <out)" = "1 1" ]
  "$HEDDLE" train $TINY --json >out
  [ "$(json_get threads <out)" = 1 ]
}

@test "recorded cgroups, version 1 and both together" {
  export HEDDLE_SYSROOT=$PWD/root HWLOC_SYNTHETIC="core:8 pu:2"
  member '4:cpu,cpuacct:/docker/x\n3:cpuset:/docker/x\n'
  cgroup cpu,cpuacct/docker/x cpu.cfs_quota_us 400000
  cgroup cpu,cpuacct/docker/x cpu.cfs_period_us 100000
  topo
  [ "$(json_get budget quota <out)" = "4 4" ]
  member '4:cpu,cpuacct:/docker/x\n0::/y\n'
  cgroup unified/y cpu.max '250000 100000'
  topo
  [ "$(json_get budget quota <out)" = "2 2.5" ]
}

@test "cgroup files that are missing or nonsense set no quota" {
  export HEDDLE_SYSROOT=$PWD/root HWLOC_SYNTHETIC="core:8 pu:2"
  for text in '' max garbage '-1 100000' '0 100000' '100000 0' '100000'; do
    member '0::/a\n'
    cgroup a cpu.max "$text"
    topo
    [ "$(json_get budget <out)" = 16 ]
  done
  member 'nothing to see'
  topo
  [ "$(json_get budget <out)" = 16 ]
  member '4:cpu,cpuacct:/b\n'
  for text in '' -1 max 0 nonsense; do
    cgroup cpu,cpuacct/b cpu.cfs_quota_us "$text"
    cgroup cpu,cpuacct/b cpu.cfs_period_us 100000
    topo
    [ "$(json_get budget quota <out)" = "16 null" ]
  done
  cgroup cpu,cpuacct/b cpu.cfs_quota_us 200000
  for text in '' 0 -5 nonsense; do
    cgroup cpu,cpuacct/b cpu.cfs_period_us "$text"
    topo
    [ "$(json_get budget quota <out)" = "16 null" ]
  done
}

# in_group FOLDER COMMAND...: runs it as a member of a live cgroup, which goes with it.
in_group() {
  local group=$1
  shift
  sh -c "echo \$\$ >'$group/cgroup.procs' && exec \"\$@\"" sh "$@"
}

@test "a live cgroup with a quota of one CPU" {
  for root in /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup/cpu /sys/fs/cgroup; do
    group=$root/heddle-test-$$
    [ -e $root/cgroup.procs ] && mkdir "$group" 2>/dev/null && break
    group=
  done
  [ -n "$group" ] || skip "no cgroup can be made here"
  if ! { echo 100000 >"$group/cpu.cfs_quota_us" || echo '100000 100000' >"$group/cpu.max"; } 2>/dev/null ||
    ! in_group "$group" true 2>/dev/null; then
    rmdir "$group"
    skip "cgroups here take no quota"
  fi
  in_group "$group" "$HEDDLE" topo --json >out || true
  rmdir "$group"
  [ "$(json_get budget quota <out)" = "1 1" ]
}

@test "policies, on two packages of two L3 groups of two cores of two CPUs" {
  m="pack:2 l3:2 core:2 pu:2"
  machine "$m"
  [ "$(json_get packages l3 cores pus budget <out)" = "2 4 8 16 16" ]
  [ "$(threads)" = "0 2 4 6 8 10 12 14" ]
  machine "$m" --placement compact --threads 3
  [ "$(threads)" = "0 1 2" ]
  machine "$m" --placement spread --threads 4
  [ "$(threads)" = "0 8 4 12" ]
  machine "$m" --placement all
  [ "$(threads)" = "0 2 4 6 8 10 12 14 1 3 5 7 9 11 13 15" ]
  machine "$m" --cpus 5,0-2
  [ "$(threads)" = "5 0 1 2" ]
  machine "$m" --threads 17
  [ "$(json_get threads.0.cpu threads.16.cpu <out)" = "null null" ]
  OMP_NUM_THREADS=3 machine "$m"
  [ "$(threads)" = "0 2 4" ]
}

@test "the tree names every core, and on a large machine every L3 group" {
  HWLOC_SYNTHETIC="pack:2 numa:2 core:2 pu:2" HEDDLE_SYSROOT=$PWD/nowhere "$HEDDLE" topo --threads 2 >out
  grep -qx 'package 1' out
  [ "$(grep -c '^  NUMA node ' out)" -eq 4 ]
  [ "$(grep -c '^      core ' out)" -eq 8 ]
  grep -Eqx ' +core 1 +CPUs 2-3 +thread 1' out
  grep -qx 'budget  16 CPUs: .*; there is no CPU quota' out
  grep -qx 'threads 2: as asked for' out
  HWLOC_SYNTHETIC="pack:2 l3:8 core:8 pu:2" HEDDLE_SYSROOT=$PWD/nowhere "$HEDDLE" topo >out
  [ "$(grep -c '^      cores ' out)" -eq 16 ]
  grep -Eqx ' +cores 120-127 +CPUs 240-255 +threads 120-127' out
}

@test "--svg draws every CPU, in well-formed XML" {
  for m in "pack:2 numa:2 l3:2 core:4 pu:2" "core:1 pu:1" "pack:2 l3:8 core:8 pu:2"; do
    HWLOC_SYNTHETIC=$m "$HEDDLE" topo --svg machine.svg >/dev/null
    [ "$(grep -c '>CPU [0-9]' machine.svg)" -eq "$(HWLOC_SYNTHETIC=$m "$HEDDLE" topo --json | json_get pus)" ]
    [ "$(grep -c '>thread [0-9]' machine.svg)" -eq "$(HWLOC_SYNTHETIC=$m "$HEDDLE" topo --json | json_get cores)" ]
    ! command -v python3 >/dev/null || python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse("machine.svg")'
  done
  fails 1 topo --svg no/such/folder/machine.svg
  says --svg no/such/folder
}

@test "a list of CPUs that is none, or is not ours" {
  local cpu
  cpu=$(one_cpu)
  for list in , a "$cpu-" "$((cpu + 1))-$cpu" -1 "$cpu,,$cpu" "$cpu 1" "$cpu-99999999999999999999"; do
    fails 2 topo --cpus "$list"
    says --cpus "such as 0-3,8" "'$list'"
  done
  refuses <<'END'
    2 topo --cpus "$cpu,100000" | --cpus | may use | found 100000
    2 topo --cpus "$(one_cpu),$(one_cpu)" | --cpus | twice
    2 train $TINY --cpus 100000 | --cpus | found 100000
    2 topo --cpus '' | --cpus | nothing
END
}

@test "wrong usage" {
  for value in 0 -1 1025 many 1.5 ''; do
    fails 2 topo --threads "$value"
    says --threads "'$value'"
  done
  fails 2 topo --placement nearby
  says "physical|compact|spread|all" "'nearby'"
  OMP_NUM_THREADS=1025 fails 2 topo
  says OMP_NUM_THREADS "'1025'"
  fails 2 topo here
  says "'here'"
}

@test "more threads than the machine has: a warning, and the run goes on with them" {
  train
  wanted=$DIGEST
  many=$(($(nproc) + 3))
  "$HEDDLE" train $TINY --threads $many --json >out 2>err
  [ "$(json_get threads weights_sha256 <out)" = "$many $wanted" ]
  [ "$(wc -l <err)" -eq 1 ]
  grep -Eq "^heddle: warning: $many threads share [0-9]+ CPUs?, which is slower; use --threads [0-9]+ or fewer$" err
}

@test "the placement leaves the digest alone" {
  train
  wanted=$DIGEST
  for layout in "--placement compact --threads 2" "--placement spread" "--placement all" "--cpus $(one_cpu)" \
    "--cpus $(one_cpu) --threads 2"; do
    train $layout
    [ "$DIGEST" = "$wanted" ]
  done
}

@test "a new run keeps off the CPU of a running one" {
  [ "$(nproc)" -ge 2 ] || skip "there is one CPU"
  cpu=$(one_cpu)
  start --model simplenet --epochs 1000000 --cpus "$cpu" --log-every 1
  await_line 'step [0-9]*:'
  "$HEDDLE" topo --json --threads 1 >out
  if json_get cpus <out | grep -q '"busy":false'; then # else others have taken all that is left
    [ "$(threads)" != "$cpu" ]
  fi
  json_get cpus <out | grep -q "\"cpu\":$cpu,[^}]*\"busy\":true"
  kill -TERM "$CHILD"
  finish
}
