"""python -m heddle: the program."""
from ._program import main

main()
