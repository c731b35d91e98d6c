"""Writes heddle/_ffi.py, the C declarations that the package calls the library by.

    python make_ffi.py INCLUDE_FOLDER OUTPUT [CC]

The declarations are the public headers', as the preprocessor shows them: system headers are replaced by (almost) empty
ones, so that nothing else is left. cffi compiles them to a table in Python; importing it parses no C.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import cffi

# What stands in place of each; cffi knows the types of the empty ones.
SYSTEM_HEADERS = {"signal.h": "typedef int sig_atomic_t;\n", "stddef.h": "", "stdint.h": "", "stdio.h": ""}


def declarations(include: str, cc: str) -> str:
    """The text of heddle/experimental.h and heddle/tools.h, core included, without comments and directives."""
    with tempfile.TemporaryDirectory() as empty:
        whole = pathlib.Path(empty, "whole.h")
        whole.write_text('#include "heddle/experimental.h"\n#include "heddle/tools.h"\n')
        for name, text in SYSTEM_HEADERS.items():
            pathlib.Path(empty, name).write_text(text)
        # Without __GNUC__ the headers have no attributes.
        command = [*cc.split(), "-E", "-P", "-U__GNUC__", "-nostdinc", "-I", empty, "-I", include,
                   str(whole)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(include: str, output: str, cc: str = "cc") -> None:
    ffi = cffi.FFI()
    ffi.cdef(re.sub(r"^#.*", "", declarations(include, cc), flags=re.M))
    ffi.set_source("heddle._ffi", None)
    ffi.emit_python_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
