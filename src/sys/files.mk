core_sources += src/sys/meeting.c src/sys/meeting.h src/sys/fpmode.c src/sys/fpmode.h src/sys/clock.c src/sys/clock.h \
  src/sys/lanes.c src/sys/lanes.h src/sys/budget.c src/sys/budget.h src/sys/segment.c src/sys/segment.h
core_sources += src/sys/file.c src/sys/file.h src/sys/spawn.c src/sys/spawn.h
