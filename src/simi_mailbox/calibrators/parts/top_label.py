"""For methods that calibrate one number, the confidence, and leave the order of classes alone."""

import torch
from torch import Tensor

from simi_mailbox.softmax import confidence, top_gaps
from simi_mailbox.validation import CalibrationData


def with_confidence(logits: Tensor, confidences: Tensor) -> Tensor:
    """Probabilities whose predicted class has the given confidence; the others are rescaled.

    The other classes keep their ratios and share what is left. A confidence below r / (1 + r),
    where r is the runner-up's share of the rest, would make the runner-up win: it is raised to
    that point (never above 1/2), so that the predicted class stays.
    """
    winner = logits.argmax(dim=1, keepdim=True)
    rest = top_gaps(logits).scatter_(1, winner, -torch.inf)
    # Softmax over the other classes alone: well defined even where the winner has all the mass.
    rest = torch.softmax(rest, dim=1)
    runner_up = rest.amax(dim=1)
    kept = torch.maximum(confidences.to(rest.dtype), runner_up / (1 + runner_up))
    rest *= (1 - kept).unsqueeze(1)
    return rest.scatter_(1, winner, kept.unsqueeze(1))


def confidence_and_correct(data: CalibrationData) -> tuple[Tensor, Tensor]:
    """Confidence, and whether the predicted class is right, of the calibration nodes (float64)."""
    z = data.calibration_logits
    correct = (z.argmax(dim=1) == data.calibration.y).to(torch.float64)
    return confidence(z), correct
