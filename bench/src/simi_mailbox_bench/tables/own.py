"""Tables that are not in the paper: all methods of the registry, and one that needs no data."""

from dataclasses import replace

from simi_mailbox.calibrators.registry import METHODS
from simi_mailbox_bench.ablation import ABLATED, PARTS
from simi_mailbox_bench.label_rivals import LABEL_RIVALS
from simi_mailbox_bench.methods import HIDDEN, WITH_HIDDEN, Method
from simi_mailbox_bench.rivals import RIVALS
from simi_mailbox_bench.tables.calibration import Column
from simi_mailbox_bench.tables.paper import (
    BASE,
    HOMOPHILOUS,
    INPUTS,
    PLAIN,
    PUBLISHED,
    READINGS,
)

SAME_LABELS = (
    "Every method fits the same validation labels; those that stop early do so on the training "
    "nodes. group-calibration has no nodes held out for it here: both its stages use the "
    "validation labels (table gc gives it more). ts-mix, svs and sms are those of probmetrics, "
    "which know of no graph."
)

# A GAT takes no edge weights, and these are what DCGC learns.
_BACKBONES = {"dcgc": ("gcn",)}
NO_DCGC = "dcgc learns edge weights, which a GAT does not take: it stands beside the GCN only."

REGISTRY = replace(
    BASE,
    name="registry",
    shows="all methods of the registry, test ECE; where simi-mailbox stands among them",
    default_runs=5,  # the first fold of the five splits
    # Without CoraFull: a table of ours, over the graphs that every method has been run on.
    datasets=tuple(name for name in HOMOPHILOUS if name != "CoraFull"),
    columns=(
        *(
            replace(Column.of(name), backbones=_BACKBONES.get(name))
            for name in (*METHODS, *HIDDEN, *RIVALS)
            if name not in ("platt", "beta")  # for two classes: table binary
        ),
        *(replace(c, printed=None) for c in PUBLISHED if c.label.startswith("simi-mailbox-paper ")),
    ),
    open=True,
    besides=("Digits",),  # for trying out a method of one's own without any download
    judged=("simi-mailbox", "simi-mailbox-free", *HIDDEN),
    caption=(
        SAME_LABELS,
        INPUTS,
        "searched, cross-fitted and exact forms of simi-mailbox-paper: see table1.",
        NO_DCGC,
    ),
)


def _ablated(*, keep_classes: bool) -> tuple[Column, ...]:
    """A mode of the method, the same without each part, and with the hidden layer."""
    whole = "simi-mailbox" if keep_classes else "simi-mailbox-free"
    return (
        Column.of(whole),
        *(
            Column(
                f"{whole} − {part}",
                Method.of(ABLATED, keep_classes=keep_classes, without=part),
            )
            for part in PARTS
        ),
        Column(f"{whole} − groups", Method.of(whole, n_groups=1)),
        Column.of(whole + WITH_HIDDEN),
    )


MOVING = replace(
    BASE,
    name="moving",
    shows="where predicted classes may change: other uses of the same labels, test ECE",
    default_runs=5,
    datasets=REGISTRY.datasets,
    columns=(
        *PLAIN,
        Column.of("dirichlet"),
        *(Column.of(name) for name in LABEL_RIVALS),
        Column.of("simi-mailbox-free"),
        Column.of(HIDDEN[1]),
    ),
    caption=(
        INPUTS,
        "correct-and-smooth (PyG's) and retrained (the GNN trained anew, for as many epochs) use "
        "training and validation labels alike; the others read no training label.",
    ),
)

VERSUS = replace(
    BASE,
    name="versus",
    shows="against GATS on the same runs, test ECE",
    default_runs=5,
    datasets=REGISTRY.datasets,
    columns=tuple(
        Column.of(name) for name in ("gats", "temperature", "simi-mailbox", "simi-mailbox-free")
    ),
    baseline="gats",
    caption=(
        INPUTS,
        "GATS is given logits, validation labels and the graph, and stops early on the labels of "
        "the training nodes.",
    ),
)

ABLATION = replace(
    BASE,
    name="ablation",
    shows="the default method without each of its parts, negative log-likelihood",
    datasets=REGISTRY.datasets,
    columns=(PLAIN[1], *_ablated(keep_classes=True), *_ablated(keep_classes=False)),
    metric="nll",
    unit="nats",
    digits=4,
    baseline="simi-mailbox",
    caption=(
        INPUTS,
        "Behind −: the part that is left out, the others being fitted without it; degree stands "
        "for both terms of the temperature, groups for the deviations of all groups.",
    ),
)

# Suffix of the name, metric of a row, in words, unit, digits.
_OTHERS = (
    ("debiased", "debiased_ece", "debiased ECE", "percent", 2),
    ("kde", "kde_ece", "KDE-ECE", "percent", 2),
    ("nll", "nll", "negative log-likelihood", "nats", 4),
    ("brier", "brier", "Brier score", "raw", 4),
)

TABLES = (
    REGISTRY,
    *(REGISTRY.shown_as(f"registry-{row[0]}", *row[1:]) for row in _OTHERS),
    replace(
        REGISTRY,
        name="registry-accuracy",
        shows="test accuracy, on the rows of registry: who changes predicted classes (higher)",
        metric="accuracy",
        judged=(),
    ),
    VERSUS,
    *(VERSUS.shown_as(f"versus-{row[0]}", *row[1:]) for row in _OTHERS[1:]),
    MOVING,
    MOVING.shown_as("moving-accuracy", "accuracy", "test accuracy"),
    MOVING.shown_as("moving-nll", "nll", "negative log-likelihood", "nats", 4),
    ABLATION,
    ABLATION.shown_as("ablation-ece", "ece", "test ECE"),
    replace(
        BASE,
        name="digits",
        shows="a quick look: the built-in digits graph, nothing to download, not in the paper",
        datasets=("Digits",),
        backbones=("gcn", "mlp"),
        columns=(
            *PLAIN,
            *(
                c
                for c in READINGS
                if c.label not in ("simi-mailbox-free", *HIDDEN) and " " not in c.label
            ),
        ),
        protocol="sparse",
        default_runs=None,
    ),
)
