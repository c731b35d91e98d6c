"""Tries heddle on the museum's rows, as TAP, and compares the page. usage: try_heddle.py HEDDLE PAGE [NAME...]"""

import multiprocessing
import os
import shutil
import sys
import tempfile

from museum_heddle import Heddle, Skip, judge
from museum_table import page_line, rows


def attempt(place):
    """A row's verdict, or what is wrong, in a process of its own."""
    row, folder = rows()[place], tempfile.mkdtemp(prefix="heddle-museum.")
    try:
        return judge(Heddle(os.path.abspath(sys.argv[1]), folder), row), None
    except Skip as why:
        return "skip", str(why)
    except Exception as error:  # whatever a row finds, the others are tried
        return "fail", "%s: %s" % (type(error).__name__, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    chosen = [i for i, each in enumerate(rows()) if not sys.argv[3:] or each.name in sys.argv[3:]]
    print("1..%d" % (len(chosen) + 2))
    found = []
    with multiprocessing.Pool(min(2, len(os.sched_getaffinity(0)))) as pool:
        for i, (verdict, why) in enumerate(pool.imap(attempt, chosen), 1):
            row = rows()[chosen[i - 1]]
            found.append((row, verdict))
            if verdict == "skip":
                print("ok %d # SKIP %s: %s" % (i, row.thread, why))
            elif verdict == "fail":
                print("not ok %d - %s: %s (%s)" % (i, row.thread, row.did, row.name))
                print("# " + why.replace("\n", "\n# "))
            else:
                print("ok %d - %s: %s (%s)" % (i, row.thread, row.did, verdict))
            sys.stdout.flush()
    count = len(rows())
    print("%s %d - the museum has at least 120 rows: %d" % ("ok" if count >= 120 else "not ok", len(chosen) + 1, count))
    compare_page(len(chosen) + 2, found)


def compare_page(number, found):
    """The page lists these rows, in this order, with the verdicts that were found, or - where heddle was not tried."""
    with open(sys.argv[2]) as file:
        lines = [line.rstrip("\n") for line in file if line.startswith("| [")]
    wrong = [line for line, row in zip(lines, rows()) if not line.startswith(page_line(row))]
    wrong += [
        line
        for line in lines
        for row, verdict in found
        if line.startswith(page_line(row))
        and verdict in ("right", "refused")
        and not line.startswith(("%s %s |" % (page_line(row), verdict), page_line(row) + " - |"))
    ]
    if len(lines) != len(rows()):
        wrong.append("expected %d rows, found %d" % (len(rows()), len(lines)))
    print("%s %d - the page has these rows and verdicts" % ("not ok" if wrong else "ok", number))
    for line in wrong[:5]:
        print("# " + line)


if __name__ == "__main__":
    main()
