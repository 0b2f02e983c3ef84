"""The debugger of trainings with PyTorch's API on MindSpore: that of MindSpore, which selects the collector."""

from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

CAPABILITY = PrecisionDebugger
