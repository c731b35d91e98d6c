cli_sources += src/cli/bench_allreduce.c src/cli/bench_measure.c src/cli/bench_peers.c src/cli/bench_ranks.c \
  src/cli/bench_ranks.h src/cli/bench_ranks_svg.c src/cli/bench_report.c src/cli/bench_report.h \
  src/cli/bench_request.c src/cli/bench_request.h src/cli/bench_svg.c src/cli/bus_error.c src/cli/cli.c \
  src/cli/cli.h src/cli/cmd_bench.c src/cli/cmd_data.c src/cli/cmd_devices.c src/cli/cmd_digest.c \
  src/cli/cmd_doctor.c src/cli/cmd_eval.c src/cli/cmd_launch.c src/cli/cmd_predict.c src/cli/cmd_summary.c \
  src/cli/cmd_top.c src/cli/cmd_topo.c src/cli/cmd_train.c src/cli/cmd_tune.c src/cli/look_json.c \
  src/cli/look_json.h src/cli/look_text.c src/cli/look_text.h src/cli/main.c src/cli/svg.c src/cli/svg.h \
  src/cli/terminal.c src/cli/terminal.h src/cli/top_screen.c src/cli/top_screen.h src/cli/topo.h src/cli/topo_svg.c \
  src/cli/tune_page.c src/cli/tune_page.h
