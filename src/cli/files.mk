cli_sources += src/cli/main.c src/cli/cli.c src/cli/cli.h src/cli/cmd_train.c src/cli/cmd_eval.c src/cli/cmd_predict.c src/cli/cmd_digest.c src/cli/cmd_summary.c
cli_sources += src/cli/cmd_topo.c src/cli/topo_svg.c src/cli/topo.h
