core_sources += src/tree/tree.c src/tree/tree.h
