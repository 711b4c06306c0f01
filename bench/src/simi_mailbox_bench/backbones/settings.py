"""Training settings of a backbone, with the published values per dataset as data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from typing import Annotated

from simi_mailbox.parameters import (
    Constraint,
    Count,
    NonNegative,
    Positive,
    Share,
    check_parameters,
)

# Raised when the code changes what the same settings compute, so that cached logits of an older
# version are never mistaken for the new ones.
CODE_VERSION = 1


@dataclass(frozen=True)
class Settings:
    """How a backbone is built and trained. The defaults are the GATS protocol's.

    ``hidden`` is the width of every hidden layer, for GAT of all ``heads`` together (the last
    layer has one); ``dropout`` acts on hidden activations, for GAT on the input of each layer.
    ``row_normalise`` divides each feature row by its sum where that exceeds one. ``class_weight``
    is that of class 1 in the loss of a two-class problem (0: both classes have the same sum), and
    with another one than 1 the checkpoint is the one of the lowest weighted validation loss.
    """

    hidden: Count = 64
    layers: Annotated[int, Constraint("≥ 2", lambda x: x >= 2)] = 2
    heads: Count = 8
    dropout: Share = 0.5
    attention_dropout: Share = 0.5
    lr: Positive = 0.01
    weight_decay: NonNegative = 5e-4
    epochs: Count = 2000
    patience: Count = 100
    row_normalise: bool = True
    class_weight: NonNegative = 1.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def digest(self) -> str:
        """Twelve hex digits naming these settings and the version of the training code.

        Only values that differ from the defaults enter: a setting added later changes no digest.
        """
        changed = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        text = json.dumps({"version": CODE_VERSION, "settings": changed}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_GATS = Settings()
_NO_DECAY = replace(_GATS, weight_decay=0.0)
_LARGE = replace(_NO_DECAY, hidden=256, row_normalise=False)
# Platonov et al. train these on the features as they are and without weight decay.
_PLATONOV = replace(_NO_DECAY, row_normalise=False)

PUBLISHED: dict[str, Settings] = {
    **dict.fromkeys(("cora", "citeseer", "pubmed", "coraml"), _GATS),
    **dict.fromkeys(("computers", "photo", "cs", "physics", "corafull"), _NO_DECAY),
    **dict.fromkeys(("chameleon", "squirrel", "actor", "texas", "wisconsin", "cornell"), _GATS),
    **dict.fromkeys(
        ("roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions"), _PLATONOV
    ),
    "tolokers-weighted": replace(_PLATONOV, class_weight=3.0),
    **dict.fromkeys(("fdcompcn", "german"), Settings(row_normalise=False)),
    **dict.fromkeys(
        ("fdcompcn-weighted", "redditbans"), Settings(row_normalise=False, class_weight=0.0)
    ),
    "arxiv": replace(_LARGE, layers=3),
    **dict.fromkeys(("reddit", "reddit2"), _LARGE),
}
"""Settings by lower-case dataset name; see ``docs/backbones.md`` for where each comes from."""


def settings_for(dataset: str) -> Settings:
    """Published settings of a dataset, and the defaults for a graph without any."""
    return PUBLISHED.get(dataset.lower(), _GATS)
