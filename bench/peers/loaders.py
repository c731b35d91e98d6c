#!/usr/bin/env python3
"""heddle's loader and PyTorch's DataLoader on the same files, in turns: how heddle bench loader --peers measures.

Work: MNIST, and 5,000 JPEG pictures of 224 x 224 in class folders, which are made first. Every sample is read, made
float32, normalised, and summed. On MNIST both sides have their best number of workers; on pictures they have equal
ones. heddle decodes a picture each time it is asked for, as the peer does (--cache none), and then as it does by
itself, when what was decoded is kept.
"""
import argparse
import json
import os
import tempfile

from peers import (Worker, add_peer, end_by_signals, find_mnist, libraries_of, median, report_of, run_heddle, say,
                   version_of)

PICTURES, SIDE = 5000, 224
COUNTS = (0, 1, 2, 4)


class Heddle:
    def __init__(self, program):
        self.program = program
        self.name = version_of(program)

    def rate(self, data, workers, seconds, options):
        return run_heddle([self.program, "bench", "loader", "--data", data, "--batch", "64", "--workers", str(workers),
                           "--seconds", str(seconds), "--json", *options], ["HEDDLE_ISA"])["samples_per_s"]


class Peer:
    """The DataLoader of an interpreter."""

    def __init__(self, python, folder, threads):
        self.python = python
        self.worker = Worker(python, "loader_worker.py", folder, threads)
        self.name = self.worker.version

    def rate(self, setting, workers, seconds):
        answer = self.worker.ask("rate", setting=setting, workers=workers, seconds=seconds)
        if "error" in answer:
            say("%s, %s, %d workers: left out: %s" % (self.name, setting, workers, answer["error"]))
        return answer.get("samples_per_s", 0)

    def close(self):
        self.worker.close()


def find_peers(pythons, folder, threads):
    peers = []
    for python in pythons:
        found = libraries_of(python)
        if found is None or "torch" not in found:
            say("PyTorch: left out: %s %s" % (python, "does not run" if found is None else "has none (with numpy)"))
            continue
        add_peer(peers, Peer(python, folder, threads), "PyTorch of %s" % python)
    return peers


def works(mnist, pictures, threads):
    """(title, work, folder, numbers of workers to choose from, heddle's options)"""
    rows = [("MNIST, sample by sample", "mnist", mnist, COUNTS, []),
            ("MNIST, the peer's data set gives whole batches", "mnist-batches", mnist, COUNTS, [])]
    for n in sorted({1, threads}) if pictures else []:
        workers = "%d worker%s" % (n, "s" * (n != 1))
        rows += [("JPEG, decoded each time, " + workers, "pictures", pictures, (n,), ["--cache", "none"]),
                 ("JPEG, as heddle keeps them, " + workers, "pictures", pictures, (n,), [])]
    return rows


def measure(row, args, heddle, peers):
    title, work, folder, counts, options = row
    data = os.path.dirname(folder) if work == "pictures" else folder
    say(title)
    best = {}
    for who in [heddle] + peers:
        settings = [None] if who is heddle else who.worker.ask("open", work=work, folder=folder).get("settings", [])
        rates = {(s, n): heddle.rate(data, n, args.search, options) if who is heddle else who.rate(s, n, args.search)
                 for s in settings for n in counts}
        if any(rates.values()):
            best[who.name] = max(rates, key=rates.get)
    values = {name: [] for name in best}
    for _ in range(args.rounds):
        for who in [heddle] + peers:
            if who.name in best:
                setting, n = best[who.name]
                values[who.name].append(heddle.rate(data, n, args.seconds, options) if who is heddle else
                                        who.rate(setting, n, args.seconds))
    told = [{"name": name, "median": median(v), "low": min(v), "high": max(v), "workers": best[name][1],
             **({} if name == heddle.name else {"setting": best[name][0]})} for name, v in values.items()]
    one = {"work": title, "heddle": told[0], "peers": told[1:]}
    if told[1:]:
        one["ratio"] = told[0]["median"] / max(p["median"] for p in told[1:])
    return one


def cell(one):
    how = "%d worker%s" % (one["workers"], "s" * (one["workers"] != 1))
    how += ", " + one["setting"] if one.get("setting") in ("Pillow", "torchvision") else ""
    return "{:,.0f} ({})".format(one["median"], how)


def print_table(report, markdown):
    print("%s, %d CPU%s, batch 64, samples/s; %s; medians of %d, taken in turns; %s. Ratio: heddle against the fastest "
          "peer.\n" % (report["cpu"], report["cpus"], "s" * (report["cpus"] != 1), report["heddle"], report["rounds"],
                       report["date"]))
    rows = [["", "heddle", *report["peers"], "ratio"]]
    for work in report["works"]:
        cells = {p["name"]: cell(p) for p in work["peers"]}
        rows.append([work["work"], cell(work["heddle"]), *[cells.get(n, "") for n in report["peers"]],
                     "%.1f" % work["ratio"] if "ratio" in work else ""])
    if markdown:
        rows.insert(1, ["---"] * len(rows[0]))
        print("\n".join("| " + " | ".join(r) + " |" for r in rows).replace("| --- ", "|---").replace("--- |", "---|"))
        return
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())


def make_pictures(peers, scratch):
    """Writes 5,000 pictures to read and one of each class as the test set, with a peer that can; returns the folder."""
    for peer in peers:
        say("making %d JPEG pictures" % PICTURES)
        train, test = (os.path.join(scratch, name) for name in ("train", "test"))
        answers = [peer.worker.ask("make", folder=f, count=n, side=SIDE) for f, n in ((train, PICTURES), (test, 10))]
        if not any("error" in answer for answer in answers):
            return train
    say("JPEG pictures: left out: no peer has Pillow to make them with")
    return None


def main():
    p = argparse.ArgumentParser(prog="heddle bench loader --peers", description=__doc__.split("\n")[0])
    p.add_argument("--heddle", default="heddle")
    p.add_argument("--python", action="append")
    p.add_argument("--data-dir")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true")
    args = p.parse_args()
    end_by_signals()
    args.search = min(args.seconds, 1)
    mnist, heddle = find_mnist(args.data_dir), Heddle(args.heddle)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    peers = find_peers(args.python or ["python3", "/usr/bin/python3"], mnist, args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            asked = works(mnist, make_pictures(peers, scratch), args.threads)
            rows = [measure(row, args, heddle, peers) for row in asked]
        finally:
            for peer in peers:
                peer.close()
    report = report_of(args, heddle, peers, rows)
    if args.json:
        print(json.dumps(report))
    else:
        print_table(report, args.markdown)


if __name__ == "__main__":
    main()
