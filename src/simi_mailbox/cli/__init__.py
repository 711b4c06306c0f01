"""The command `simi-mailbox`: its subcommands are imported when they are called."""

# Subcommands, each in the module of its name or as below, and one line for the overview.
COMMANDS = {
    "calibrate": "From files of your own to calibrated files.",
    "fit": "Learn a calibrator from files and save it.",
    "apply": "Calibrate logits with a saved calibrator.",
    "update": "Add late labels to a saved calibrator.",
    "monitor": "Can probabilities of new nodes be trusted?",
    "evaluate": "Are probabilities calibrated?",
    "compare": "Which method is best on your nodes?",
    "decide": "Which predictions to act on; sets of classes.",
    "methods": "Which calibrators there are, and what each needs.",
    "demo": "Train, calibrate and judge a GNN on a built-in graph.",
    "report": "Write an HTML report from arrays of your own.",
}
MODULES = dict.fromkeys(("fit", "apply", "update"), "calibrate")

# Commands of the package simi-mailbox-bench, which joins by the entry-point group below.
BENCH_COMMANDS = {
    "bench": "Reproduce the tables and figures of the paper.",
    "data": "See which graphs are here.",
    "prior": "Learn a prior from past graphs, or look at one.",
}
ENTRY_POINTS = "simi_mailbox.commands"


def main() -> None:
    """Run the command."""
    from simi_mailbox.cli.group import cli

    cli(prog_name="simi-mailbox")
