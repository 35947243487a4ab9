"""x"""
import numpy as np
from cclm.data.batches import Batch
