core_sources += src/base/status.c src/base/status.h src/base/alloc.c src/base/alloc.h
