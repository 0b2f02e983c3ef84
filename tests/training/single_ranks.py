"""What one rank saves with SingleSave before and after communication is initialised: `python single_ranks.py DIR`."""

import sys

import numpy as np
from mindspore import Tensor
from mindspore.communication import get_rank, init

from msprobe.core import SingleSave

SingleSave(sys.argv[1])  # without fmk: the rank is found all the same
init()
SingleSave.save({"x": Tensor(np.full(2, get_rank(), np.float32))})
SingleSave.save({"x": Tensor(np.full(2, 10 + get_rank(), np.float32))})
