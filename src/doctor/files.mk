core_sources += src/doctor/doctor.c src/doctor/patient.h src/doctor/host.c src/doctor/work.c src/doctor/work.h \
  src/doctor/check_threads.c src/doctor/check_cores.c src/doctor/check_kernels.c src/doctor/check_memory.c
