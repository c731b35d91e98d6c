core_sources += src/sys/meeting.c src/sys/meeting.h src/sys/relax.h src/sys/fpmode.c src/sys/fpmode.h src/sys/clock.c \
  src/sys/clock.h src/sys/lanes.c src/sys/lanes.h src/sys/quota.c src/sys/quota.h src/sys/segment.c src/sys/segment.h
core_sources += src/sys/file.c src/sys/file.h src/sys/spawn.c src/sys/spawn.h src/sys/cpu_name.c src/sys/cpu_name.h
core_sources += src/sys/topology.c src/sys/topology.h src/sys/placement.c src/sys/num_threads.c src/sys/claim.c \
  src/sys/claim.h
core_sources += src/sys/process.c src/sys/process.h src/sys/job_page.c src/sys/job_page.h
core_sources += src/sys/memory.c src/sys/memory.h src/sys/cpu_set.c src/sys/cpu_set.h
core_sources += src/sys/module.c src/sys/module.h
