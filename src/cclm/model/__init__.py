"""The model: a Transformer, its loss and its learning-rate schedule. Needs torch; imports nothing else from cclm."""

from cclm.model.loss import Losses, bits, losses
from cclm.model.packing import PAD, Packing
from cclm.model.schedule import learning_rate
from cclm.model.transformer import Shape, Transformer

__all__ = ["PAD", "Losses", "Packing", "Shape", "Transformer", "bits", "learning_rate", "losses"]
