"""The models: a Transformer of ours and pretrained ones, the loss and the learning-rate schedule. Needs torch; imports
nothing else from cclm."""

from cclm.model.interface import TranslationModel
from cclm.model.loss import Losses, bits, losses
from cclm.model.packing import PAD, Packing
from cclm.model.schedule import Schedule
from cclm.model.transformer import Shape, Transformer

__all__ = ["PAD", "Losses", "Packing", "Schedule", "Shape", "Transformer", "TranslationModel", "bits", "losses"]
