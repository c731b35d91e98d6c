#!/usr/bin/env python3
"""heddle's all-reduce and its peers', in turns: how heddle bench allreduce --peers measures.

Each round runs heddle, MPI (built with mpicc here) and gloo of each PyTorch that is found, as fresh processes with the
same sizes and the same method, each rank bound to the same CPU: private buffers that were written before, a barrier,
the slowest rank, medians.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from peers import HERE, TIMEOUT_S, end_by_signals, median, say

SIZES = (4, 64, 1024, 16384, 65536, 262144, 1 << 20, 4 << 20, 32 << 20)
WARM_UP, MANY, FEW, MANY_UP_TO = 5, 500, 30, 65536


def cpus_of(ranks):
    """A CPU for each rank, none if there are fewer."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[:ranks] if ranks <= len(cpus) else []


def gloo_rank(rank, ranks, path):
    """One rank of gloo; rank 0 prints microseconds by bytes."""
    import time
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    if cpus_of(ranks):
        os.sched_setaffinity(0, {cpus_of(ranks)[rank]})
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=ranks)
    found = {}
    for size in SIZES:
        terms = torch.arange(size // 4) % 7 + (rank + 1.0)
        times = []
        for turn in range(-WARM_UP, MANY if size <= MANY_UP_TO else FEW):
            data = terms.clone()
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if turn >= 0:
                times.append(1e6 * took.item())
        assert torch.equal(data, (torch.arange(size // 4) % 7) * float(ranks) + ranks * (ranks + 1) / 2)
        found[str(size)] = median(times)
    if rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, **more)
    if done.returncode:
        last = (done.stderr.strip() or "exit status %d" % done.returncode).split("\n")[-1]
        raise RuntimeError("%s: %s" % (os.path.basename(command[0]), last))
    return json.loads(done.stdout.strip().split("\n")[-1])


class Heddle:
    def __init__(self, program, ranks):
        self.name, self.command = "heddle", [program, "bench", "allreduce", "--procs", str(ranks), "--json"]

    def measure(self):
        answer = run(self.command)
        self.cpu, self.cpus, self.shared = answer["cpu"], answer["cpus"], answer["shared_us_by_bytes"]
        return answer["us_by_bytes"]


class Mpi:
    def __init__(self, ranks, scratch, source="mpi_allreduce"):
        program = os.path.join(scratch, source)
        subprocess.run(["mpicc", "-O2", os.path.join(HERE, source + ".c"), "-o", program], check=True)
        version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        self.name = version.replace("mpirun (", "").replace(")", "") or "MPI"
        more = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if "Open MPI" in version else []
        cpus = cpus_of(ranks)
        if more and not cpus:  # or it collapses
            more += ["--mca", "mpi_yield_when_idle", "1"]
        self.command = ["mpirun", *more, "-n", str(ranks), program]
        if cpus:  # the same as heddle's ranks have: mpirun's own choice may lie outside of the affinity
            each = [["-n", "1", "taskset", "-c", str(cpu), program] for cpu in cpus]
            self.command = ["mpirun", *more, *each[0], *[word for one in each[1:] for word in [":", *one]]]

    def measure(self):
        return run(self.command)


class Gloo:
    def __init__(self, python, ranks, scratch):
        ask = "import torch, torch.distributed as d; print(torch.__version__ if d.is_gloo_available() else '')"
        version = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=TIMEOUT_S).stdout.strip()
        if not version:
            raise RuntimeError("%s has no PyTorch with gloo" % python)
        self.name, self.python, self.ranks, self.scratch, self.round = "gloo " + version, python, ranks, scratch, 0

    def measure(self):
        self.round += 1
        path = os.path.join(self.scratch, "gloo-%d-%d" % (id(self), self.round))
        ranks = [subprocess.Popen([self.python, os.path.abspath(__file__), "--gloo", str(r), str(self.ranks), path],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                 for r in range(self.ranks)]
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in ranks]
        if any(process.returncode for process in ranks):
            raise RuntimeError("a rank of gloo failed")
        return json.loads(said[0])


def find(args, scratch):
    makers = [lambda: Heddle(args.heddle, args.procs), lambda: Mpi(args.procs, scratch)]
    pythons = args.python or [p for p in ("python3",) if shutil.which(p)]
    makers += [lambda python=python: Gloo(python, args.procs, scratch) for python in pythons]
    found = []
    for make in makers:
        try:
            found.append(make())
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            say("left out: %s" % error)
    return found


def table(report, markdown):
    names = [p["name"] for p in report["peers"]]
    head = ["bytes", "heddle", "in the segment", *names, *("to " + n for n in names)]
    rows = [head] + [[str(size), "%.2f" % report["us_by_bytes"][str(size)],
                      "%.2f" % report["shared_us_by_bytes"][str(size)],
                      *("%.2f" % p["us_by_bytes"][str(size)] for p in report["peers"]),
                      *("%.1f" % p["ratio_by_bytes"][str(size)] for p in report["peers"])] for size in SIZES]
    print("%s, %d ranks on %d CPUs, float32; microseconds, medians of %d rounds in turns.\n" % (
        report["cpu"], report["ranks"], report["cpus"], report["rounds"]))
    for i, row in enumerate(rows):
        print("| " + " | ".join(row) + " |" if markdown else "  ".join("%16s" % cell for cell in row))
        if i == 0 and markdown:
            print("|---" * len(row) + "|")


def main():
    if sys.argv[1:2] == ["--gloo"]:
        return gloo_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    p = argparse.ArgumentParser(prog="heddle bench allreduce --peers", description=__doc__.split("\n")[0])
    p.add_argument("--heddle", default="heddle")
    p.add_argument("--procs", type=int, default=2)
    p.add_argument("--python", action="append")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true")
    args = p.parse_args()
    end_by_signals()
    with tempfile.TemporaryDirectory() as scratch:
        runners = find(args, scratch)
        rounds = {id(r): [] for r in runners}
        shared = []
        for turn in range(args.rounds):
            for runner in runners:
                say("round %d of %d: %s" % (turn + 1, args.rounds, runner.name))
                rounds[id(runner)].append(runner.measure())
            shared.append(runners[0].shared)

    def medians(all_rounds):
        return {str(size): median([r[str(size)] for r in all_rounds]) for size in SIZES}
    heddle_us = medians(rounds[id(runners[0])])
    peers = [{"name": r.name, "us_by_bytes": medians(rounds[id(r)])} for r in runners[1:]]
    for peer in peers:
        peer["ratio_by_bytes"] = {size: us / heddle_us[size] for size, us in peer["us_by_bytes"].items()}
    report = {"cpu": runners[0].cpu, "cpus": runners[0].cpus, "ranks": args.procs, "rounds": args.rounds,
              "us_by_bytes": heddle_us, "shared_us_by_bytes": medians(shared), "peers": peers}
    if args.json:
        print(json.dumps(report))
    else:
        table(report, args.markdown)


if __name__ == "__main__":
    main()
