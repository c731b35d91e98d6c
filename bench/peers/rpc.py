#!/usr/bin/env python3
"""heddle's remote procedure calls and their peers, in turns: how heddle bench rpc --peers measures.

Each round runs heddle, MPI's round trip (built with mpicc here), gRPC over a socket of this machine and PyTorch's RPC,
as far as each Python has them, as two fresh processes: calls that return their bytes, one after the other, medians; and
calls without bytes a second, with 32 futures under way.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from allreduce import Mpi, cpus_of, run
from peers import TIMEOUT_S, end_by_signals, median, say

SIZES = (0, 64, 4096, 65536, 1 << 20)
WARM_UP, MANY, FEW, MANY_UP_TO = 20, 500, 50, 65536
UNDER_WAY, CALLS = 32, 5000


def bind(rank):
    if cpus_of(2):
        os.sched_setaffinity(0, {cpus_of(2)[rank]})


def measure(call, start, data):
    """call(data) returns it; start(data) gives a future, whose wait is result(). Prints what a round found."""
    found = {}
    for size in SIZES:
        given, times = data(size), []
        for turn in range(-WARM_UP, MANY if size <= MANY_UP_TO else FEW):
            begin = time.perf_counter()
            result = call(given)
            if turn >= 0:
                times.append(1e6 * (time.perf_counter() - begin))
        assert bytes(result) == bytes(given)
        found[str(size)] = median(times)
    given, under_way, begin = data(0), [], time.perf_counter()
    for _ in range(CALLS):
        if len(under_way) == UNDER_WAY:
            under_way.pop(0)()
        under_way.append(start(given))
    for wait in under_way:
        wait()
    found["calls_per_s"] = CALLS / (time.perf_counter() - begin)
    print(json.dumps(found))


def grpc_rank(rank, path):
    """gRPC with a generic function of bytes. Rank 1 serves until its input ends."""
    import grpc
    from concurrent import futures
    bind(rank)
    limits = [("grpc.max_receive_message_length", 1 << 22), ("grpc.max_send_message_length", 1 << 22)]
    if rank == 1:
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=limits)
        echo = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", {"echo": echo}),))
        server.add_insecure_port("unix:" + path)
        server.start()
        sys.stdin.read()
        server.stop(None)
        return
    with grpc.insecure_channel("unix:" + path, options=limits) as channel:
        grpc.channel_ready_future(channel).result(timeout=TIMEOUT_S)
        echo = channel.unary_unary("/bench/echo")
        measure(echo, lambda data: echo.future(data).result, bytes)


def torch_echo(data):
    return data


def torch_rank(rank, path):
    import torch
    import torch.distributed.rpc as rpc
    torch.set_num_threads(1)
    bind(rank)
    options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + path)
    rpc.init_rpc("rank%d" % rank, rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        measure(lambda data: rpc.rpc_sync("rank1", torch_echo, (data,)),
                lambda data: rpc.rpc_async("rank1", torch_echo, (data,)).wait,
                lambda size: torch.zeros(size, dtype=torch.uint8))
    rpc.shutdown()


RANKS = {"gRPC": (grpc_rank, "import grpc; print(grpc.__version__)"),
         "PyTorch RPC": (torch_rank, "import torch, torch.distributed.rpc as r; "
                                     "print(torch.__version__ if r.is_available() else '')")}


class Heddle:
    def __init__(self, program):
        self.name, self.command = "heddle", [program, "bench", "rpc", "--json"]

    def measure(self):
        answer = run(self.command)
        self.cpu, self.cpus = answer["cpu"], answer["cpus"]
        return {**answer["us_by_bytes"], "calls_per_s": answer["calls_per_s"]}


class Python:
    """Two processes of this script; what rank 0 prints is the result."""

    def __init__(self, kind, python, scratch):
        version = subprocess.run([python, "-c", RANKS[kind][1]], capture_output=True, text=True,
                                 timeout=TIMEOUT_S).stdout.strip()
        if not version:
            raise RuntimeError("%s has no %s" % (python, kind))
        self.name = "%s %s" % (kind, version)
        self.kind, self.python, self.scratch, self.round = kind, python, scratch, 0

    def measure(self):
        self.round += 1
        path = os.path.join(self.scratch, "%x-%d" % (id(self), self.round))
        command = [self.python, os.path.abspath(__file__), "--rank", self.kind]
        first, second = [subprocess.Popen([*command, str(rank), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True) for rank in (0, 1)]
        said = first.communicate(timeout=TIMEOUT_S)[0]
        second.communicate(timeout=TIMEOUT_S)
        if first.returncode or second.returncode:
            raise RuntimeError("a rank of %s failed" % self.name)
        return json.loads(said.strip().split("\n")[-1])


def find(args, scratch):
    makers = [lambda: Heddle(args.heddle), lambda: Mpi(2, scratch, "mpi_roundtrip")]
    pythons = args.python or [p for p in ("python3",) if shutil.which(p)]
    makers += [lambda kind=kind, python=python: Python(kind, python, scratch) for python in pythons for kind in RANKS]
    found = []
    for make in makers:
        try:
            found.append(make())
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            say("left out: %s" % error)
    return found


def rows_of(report):
    peers = report["peers"]
    yield ["bytes", "heddle", *(p["name"] for p in peers), *("to " + p["name"] for p in peers)]
    for size in map(str, SIZES):
        yield [size, "%.2f" % report["us_by_bytes"][size], *("%.2f" % p["us_by_bytes"][size] for p in peers),
               *("%.1f" % p["ratio_by_bytes"][size] for p in peers)]
    yield ["calls/s", "%.0f" % report["calls_per_s"],
           *("%.0f" % p["calls_per_s"] if p["calls_per_s"] else "" for p in peers), *("" for p in peers)]


def table(report, markdown):
    print("%s, 2 ranks on %d CPUs; microseconds of a call, medians of %d rounds in turns.\n" % (
        report["cpu"], report["cpus"], report["rounds"]))
    for i, row in enumerate(rows_of(report)):
        print("| " + " | ".join(row) + " |" if markdown else "  ".join("%20s" % cell for cell in row))
        if i == 0 and markdown:
            print("|---" * len(row) + "|")


def main():
    if sys.argv[1:2] == ["--rank"]:
        return RANKS[sys.argv[2]][0](int(sys.argv[3]), sys.argv[4])
    p = argparse.ArgumentParser(prog="heddle bench rpc --peers", description=__doc__.split("\n")[0])
    p.add_argument("--heddle", default="heddle")
    p.add_argument("--procs", type=int, choices=[2], default=2)
    p.add_argument("--python", action="append")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true")
    args = p.parse_args()
    end_by_signals()
    with tempfile.TemporaryDirectory() as scratch:
        runners = find(args, scratch)
        rounds = {id(r): [] for r in runners}
        for turn in range(args.rounds):
            for runner in runners:
                say("round %d of %d: %s" % (turn + 1, args.rounds, runner.name))
                rounds[id(runner)].append(runner.measure())

    def us(runner):
        return {str(size): median([r[str(size)] for r in rounds[id(runner)]]) for size in SIZES}

    def rate(runner):
        rates = [r["calls_per_s"] for r in rounds[id(runner)] if "calls_per_s" in r]
        return median(rates) if rates else None
    heddle_us = us(runners[0])
    peers = [{"name": r.name, "us_by_bytes": us(r), "calls_per_s": rate(r)} for r in runners[1:]]
    for peer in peers:
        peer["ratio_by_bytes"] = {size: peer["us_by_bytes"][size] / heddle_us[size] for size in heddle_us}
    report = {"cpu": runners[0].cpu, "cpus": runners[0].cpus, "rounds": args.rounds, "us_by_bytes": heddle_us,
              "calls_per_s": rate(runners[0]), "peers": peers}
    if args.json:
        print(json.dumps(report))
    else:
        table(report, args.markdown)


if __name__ == "__main__":
    main()
