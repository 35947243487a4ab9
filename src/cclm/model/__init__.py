"""The model: a Transformer, its loss and its learning rate. Needs torch and imports nothing else of cclm."""

from cclm.model.loss import Losses, bits, losses
from cclm.model.packing import PAD, Places
from cclm.model.schedule import learning_rate
from cclm.model.transformer import Shape, Transformer

__all__ = ["PAD", "Losses", "Places", "Shape", "Transformer", "bits", "learning_rate", "losses"]
