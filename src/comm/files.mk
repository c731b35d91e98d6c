core_sources += src/comm/fault.c src/comm/fault.h src/comm/watch.c src/comm/watch.h src/comm/world.c src/comm/world.h
core_sources += src/comm/group.c src/comm/group.h src/comm/collective.c src/comm/reduce.c src/comm/reduce.h \
  src/comm/reduce_loops.h src/comm/message.c src/comm/message.h src/comm/desk.c src/comm/desk.h \
  src/comm/rendezvous.c src/comm/rendezvous.h src/comm/start.c
core_sources += src/comm/nccl.h src/comm/nccl_find.c src/comm/nccl_find.h src/comm/gpu_group.c src/comm/gpu_group.h
nccl_module_sources += src/comm/nccl/nccl_module.c src/comm/nccl.h
core_sources += src/comm/transport.h src/comm/hosts.c src/comm/hosts.h src/comm/hosts_state.h src/comm/hosts_move.c \
  src/comm/agree.c
mpi_module_sources += src/comm/mpi/mpi_module.c src/comm/transport.h
