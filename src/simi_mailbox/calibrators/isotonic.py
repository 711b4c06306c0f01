"""Isotonic regression of the confidence."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes, check_within
from simi_mailbox.calibrators.parts.likelihood import confidence_and_correct, with_confidence
from simi_mailbox.parameters import NonNegative, hyperparameters
from simi_mailbox.softmax import confidence
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class Isotonic(Calibrator):
    """The best non-decreasing map from confidence to the share of right predictions.

    f minimises Σ_i (t_i − f(c_i))² over the calibration nodes, where c_i is the confidence of node
    i and t_i is 1 if its predicted class is right and 0 if not (Zadrozny & Elkan, KDD 2002).
    Between the calibration nodes f is linear, outside it is constant. The predicted class gets
    f(c_i), the other classes keep their ratios and share the rest.

    Parameters
    ----------
    prior_strength : float
        Weight of the belief that the model is right about itself, in labels: t_i becomes
        (t_i + a c_i) / (1 + a) with a = ``prior_strength`` / m for m calibration nodes. Plain
        isotonic regression (0) says "certain" wherever no calibration node was wrong, and one
        wrong test node there makes the log-likelihood infinite.

    Attributes
    ----------
    thresholds_, values_ : float64 arrays
        The knots of f.

    Notes
    -----
    This calibrates the top label. One-vs-rest isotonic regression (Zadrozny & Elkan) and the
    regression of all n·K probabilities at once of Mix-n-Match and of the GATS code (IRM) change
    predicted classes or lift classes of probability zero; here a confidence that would let the
    runner-up win is raised to the tie instead, so accuracy is preserved. No early stopping: the fit
    is exact.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(200, 2)) * 5  # confident, and right as often as not
    >>> y = rng.integers(2, size=200)
    >>> cal = Isotonic().fit(logits, y, mask=np.arange(100))
    >>> bool(cal.predict_proba(logits).max(axis=1).mean() < 0.65)
    True
    """

    name: ClassVar[str] = "isotonic"
    fitted: ClassVar[Shapes] = {"thresholds_": ("steps",), "values_": ("steps",)}
    keep_classes = True

    prior_strength: NonNegative = 1.0

    def _fit(self, data: CalibrationData) -> None:
        from sklearn.isotonic import IsotonicRegression

        conf, correct = confidence_and_correct(data)
        weight = self.prior_strength / len(data.calibration)
        target = (correct + weight * conf) / (1 + weight)
        fitted = IsotonicRegression().fit(conf.numpy(), target.numpy())
        self.thresholds_ = fitted.X_thresholds_
        self.values_ = fitted.y_thresholds_

    def _check_state(self) -> None:
        check_within("values_", self.values_, 0.0, 1.0)
        if not len(self.thresholds_) or (np.diff(self.thresholds_) < 0).any():
            raise ValueError("thresholds_ do not rise")

    def _predict(self, data: NodeInputs) -> Tensor:
        mapped = np.interp(confidence(data.logits).numpy(), self.thresholds_, self.values_)
        return with_confidence(data.logits, torch.from_numpy(mapped))
