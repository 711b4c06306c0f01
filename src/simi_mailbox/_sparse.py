"""Sparse CSR tensors of PyTorch without its once-per-process notice that they are new."""

import warnings

import torch


def silence_beta_notice() -> None:
    """Draw PyTorch's "CSR is in beta state" notice here, where nobody has to read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1))
