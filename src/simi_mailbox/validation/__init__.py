"""Input validation, once for all: labels outside the masks are dropped here."""

from simi_mailbox.validation.data import (
    CalibrationData,
    Forward,
    NodeInputs,
    looks_trained_on,
    read_calibration,
    read_features,
    read_node_ids,
    read_nodes,
)
from simi_mailbox.validation.labels import (
    NO_LABEL,
    Labelled,
    as_numpy,
    is_array,
    read_classes,
    read_index,
    read_known,
    read_labels,
    refuse_shared,
)
from simi_mailbox.validation.logits import (
    RANGE_TOLERANCE,
    ROW_SUM_TOLERANCE,
    InputType,
    are_log_probabilities,
    are_probabilities,
    read_logits,
    read_probabilities,
)

__all__ = [
    "NO_LABEL",
    "RANGE_TOLERANCE",
    "ROW_SUM_TOLERANCE",
    "CalibrationData",
    "Forward",
    "InputType",
    "Labelled",
    "NodeInputs",
    "are_log_probabilities",
    "are_probabilities",
    "as_numpy",
    "is_array",
    "looks_trained_on",
    "read_calibration",
    "read_classes",
    "read_features",
    "read_index",
    "read_known",
    "read_labels",
    "read_logits",
    "read_node_ids",
    "read_nodes",
    "read_probabilities",
    "refuse_shared",
]
