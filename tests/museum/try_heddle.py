"""Tries heddle on the museum's rows, as TAP. usage: try_heddle.py HEDDLE [NAME...]"""
import os
import shutil
import sys
import tempfile

from museum_heddle import Heddle, judge
from museum_table import rows


def main():
    chosen = [each for each in rows() if not sys.argv[2:] or each.name in sys.argv[2:]]
    print("1..%d" % len(chosen))
    for i, row in enumerate(chosen, 1):
        folder = tempfile.mkdtemp(prefix="heddle-museum.")
        try:
            verdict = judge(Heddle(os.path.abspath(sys.argv[1]), folder), row)
            print("ok %d - %s: %s (%s)" % (i, row.thread, row.did, verdict))
        except Exception as error:  # whatever a row finds, the others are tried
            print("not ok %d - %s: %s (%s)" % (i, row.thread, row.did, row.name))
            print("# %s: %s" % (type(error).__name__, str(error).replace("\n", "\n# ")))
        finally:
            sys.stdout.flush()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
