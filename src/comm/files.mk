core_sources += src/comm/fault.c src/comm/fault.h src/comm/watch.c src/comm/watch.h src/comm/world.c src/comm/world.h
