"""A search by Optuna: learning rate and width of a network, with trials that do not look good ended early.

    python3 examples/optuna_search.py [TRIALS]
"""
import sys

import optuna

import heddle


def objective(trial):
    """The test loss of a network; a callback tells Optuna that of each epoch."""
    def report(event):
        if event.kind == "epoch":
            trial.report(event.test_loss, event.epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

    width = trial.suggest_int("width", 8, 32, log=True)
    model = (heddle.Model("searched", (1, 28, 28)).add("flat", "flatten").add("fc1", "linear", out=width)
             .add("relu1", "relu").add("fc2", "linear", out=10))
    run = heddle.train(model, "digits", lr=trial.suggest_float("lr", 1e-4, 1e-1, log=True), epochs=3, batch=2000,
                       callback=report, progress=False)
    return run.evaluate().loss


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print(f"best: loss {study.best_value:.4f} with {study.best_params}")
