"""python -m heddle: the program, which has one command more here, watch."""
import sys

from . import _program, _watch

if sys.argv[1:2] == ["watch"]:
    sys.exit(_watch.main(sys.argv[2:]))
_program.main()
