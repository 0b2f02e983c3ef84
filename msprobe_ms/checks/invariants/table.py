"""All invariants: one row each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msprobe.findings.catalogue import invariants as kinds
from msprobe.findings.kind import Kind

from .calls import masked_weights, norm_statistics, softmax_rows
from .clipping import clips_alike, norms_count_once
from .exchanges import collectives_reduce
from .judgement import Judgement, Run
from .losses import tokens_weigh_alike
from .replayed import memory_is_written, outputs_replay
from .replicas import batches_differ, gradients_reduced, parameters_equal
from .resumed import resume_continues
from .training import have_gradients, move

Predicate = Callable[[Run, Run | None], Iterator[Judgement]]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant.

    kind : the kind of a violation.
    needs : what a dump must contain to judge it.
    says : the sentence that holds in every correct training.
    source : why it holds.
    predicate : the function that judges it.
    """

    kind: Kind
    needs: str
    says: str
    source: str
    predicate: Predicate

    @property
    def name(self) -> str:
        """Return the name of its kind."""
        return self.kind.name


def _alone(check: Callable[[Run], Iterator[Judgement]]) -> Predicate:
    return lambda run, _: check(run)


ROWS = (
    Invariant(
        kinds.EQUAL_PARAMETERS,
        "several ranks; two steps, or reduced gradients",
        "parameters are equal on all ranks",
        "data parallelism keeps replicas of one model",
        _alone(parameters_equal),
    ),
    Invariant(
        kinds.REDUCED_GRADIENTS,
        "several ranks, gradients of parameters, level mix",
        "every gradient is summed up over the ranks, if most are",
        "the gradient of a batch is the mean over its shares",
        _alone(gradients_reduced),
    ),
    Invariant(
        kinds.OWN_BATCHES,
        "several ranks, gradients of parameters, level mix",
        "ranks that share gradients have batches of their own",
        "a distributed sampler gives each rank its share",
        _alone(batches_differ),
    ),
    Invariant(
        kinds.REDUCTIONS,
        "several ranks, collectives (L1, mix)",
        "the result of all_reduce and reduce_scatter is the reduction of the inputs of all ranks",
        "the definition of the collective",
        _alone(collectives_reduce),
    ),
    Invariant(
        kinds.GRADIENT_NORM,
        "several ranks, gradients of parameters, clipping between start and stop, level mix",
        "a norm of the gradients of all ranks counts each gradient once",
        "the norm of a model does not depend on how it is distributed",
        _alone(norms_count_once),
    ),
    Invariant(
        kinds.CLIPPING,
        "several ranks, gradients of parameters, clipping between start and stop, level mix",
        "gradients are clipped by one norm and one factor on all ranks",
        "a clipped gradient is a multiple of the gradient",
        _alone(clips_alike),
    ),
    Invariant(
        kinds.LOSS_WEIGHTS,
        "losses with their backward, on several ranks or in several micro batches, level mix; padding with task tensor",
        "every token has the same weight in the loss, whichever rank or micro batch has it",
        "the loss of a batch is the mean over its tokens",
        _alone(tokens_weigh_alike),
    ),
    Invariant(
        kinds.GRADIENTS,
        "gradients of parameters (L0, mix)",
        "every trainable parameter has a gradient",
        "a parameter without one is frozen, detached or unused",
        _alone(have_gradients),
    ),
    Invariant(
        kinds.UPDATES,
        "two steps that follow each other",
        "every float32 parameter whose gradient is not negligible compared with the others is updated",
        "an optimizer changes what it was given",
        _alone(move),
    ),
    Invariant(
        kinds.SOFTMAX,
        "softmax calls or cells; rows one by one with task tensor",
        "rows are not negative and add up to 1",
        "the definition of softmax",
        _alone(softmax_rows),
    ),
    Invariant(
        kinds.MASKS,
        "softmax or attention calls with a mask, task tensor",
        "masked weights are 0, and a causal mask hides what comes later",
        "attention with a mask; autoregressive models",
        _alone(masked_weights),
    ),
    Invariant(
        kinds.NORMS,
        "LayerNorm, RMSNorm, GroupNorm, BatchNorm with task tensor",
        "without weight and bias the mean is 0 and the mean square 1",
        "the definitions of the layers",
        _alone(norm_statistics),
    ),
    Invariant(
        kinds.REPLAY,
        "task tensor, extra torch",
        "the output of a call is the operation's on its recorded inputs",
        "msprobe.replay in float64, tolerance by the dtypes",
        _alone(outputs_replay),
    ),
    Invariant(
        kinds.WRITTEN_MEMORY,
        "level mix or L1, calls of empty() or task tensor",
        "no call reads memory that was never written",
        "what empty() gives is undefined",
        _alone(memory_is_written),
    ),
    Invariant(
        kinds.RESUME,
        "a second dump of the same step",
        "a resumed run has the parameters, batches and results of the one that went on",
        "a checkpoint restores the state of a training",
        resume_continues,
    ),
)
