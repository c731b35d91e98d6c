core_sources += src/monitor/monitor.c src/monitor/use.c src/monitor/use.h src/monitor/jobs.c src/monitor/jobs.h \
  src/monitor/nvml.c src/monitor/nvml.h src/monitor/idle.c src/monitor/idle.h
