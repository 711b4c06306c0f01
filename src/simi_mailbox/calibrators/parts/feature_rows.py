"""Node features, dense or sparse, as something NumPy and SciPy multiply."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from simi_mailbox.inputs import NodeInputs


def feature_matrix(data: NodeInputs, width: int | None = None) -> Any:
    """Features as a float64 NumPy array, or as a SciPy CSR array if they are sparse.

    ``width`` is the number of columns that a fitted calibrator expects.

    Examples
    --------
    >>> nodes = NodeInputs(torch.zeros(2, 3), features=torch.eye(2).to_sparse_csr())
    >>> feature_matrix(nodes).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    from scipy.sparse import csr_array

    features = data.features
    assert features is not None
    if width is not None and features.shape[1] != width:
        raise ValueError(
            f"features have {features.shape[1]} columns, but this calibrator was fitted on {width}"
        )
    if features.layout == torch.sparse_csr:
        parts = (features.values(), features.col_indices(), features.crow_indices())
        values, columns, offsets = (part.numpy() for part in parts)
        return csr_array((values.astype(np.float64), columns, offsets), shape=features.shape)
    return features.numpy().astype(np.float64)
