core_sources += src/train/options.def src/train/config.c src/train/config.h src/train/schedule.c src/train/schedule.h \
  src/train/init.c src/train/init.h src/train/target.c src/train/target.h src/train/augment.c src/train/augment.h \
  src/train/feed.c src/train/feed.h src/train/network.c src/train/network.h src/train/record.c src/train/record.h \
  src/train/checkpoint.c src/train/checkpoint.h src/train/checkpoint_tensors.c src/train/checkpoint_tensors.h \
  src/train/saver.c src/train/saver.h src/train/session.c src/train/session.h src/train/setup.c src/train/run_folder.c \
  src/train/evaluate.c src/train/trained.c src/train/trained.h src/train/predict.c src/train/planned.c \
  src/train/planned.h src/train/summary.c src/train/model_builder.c
core_sources += src/train/device.c src/train/device.h src/train/best_device.c src/train/move.c
core_sources += src/train/profile.c src/train/profile.h src/train/profile_shares.c
core_sources += src/train/rehearsal.c src/train/rehearsal.h src/train/scaling.c src/train/scaling.h src/train/tune.c \
  src/train/best_threads.c src/train/best_threads.h src/train/supply.c src/train/supply.h src/train/loader.c \
  src/train/look.c src/train/order.c src/train/order.h
core_sources += src/train/rank_times.c src/train/rank_times.h src/train/gpu_accounts.c src/train/gpu_accounts.h
core_sources += src/train/rank_lanes.c src/train/rank_lanes.h src/train/rescue.c src/train/rescue.h \
  src/train/keeper.c src/train/keeper.h src/train/launch.c src/train/agreement.c src/train/agreement.h
core_sources += src/train/launch_hosts.c src/train/launch_hosts.h
