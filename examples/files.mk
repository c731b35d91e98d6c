check_PROGRAMS += examples/tensors
examples_tensors_SOURCES = examples/tensors.c
examples_tensors_CPPFLAGS = -I$(top_srcdir)/include
examples_tensors_CFLAGS = -std=c99 -pedantic -Wall -Wextra -Wshadow -Wstrict-prototypes $(SANITIZE)
examples_tensors_LDADD = libheddle.la
EXTRA_DIST += examples/tensors.txt
