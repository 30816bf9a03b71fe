"""Owns the optimizer: its step, and how it goes on where another one was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sample_profiler.config import OptimizerOptions

__all__ = ["FusedAdam", "Lamb", "make_optimizer"]

_MOMENTS = ("exp_avg", "exp_avg_sq")
_EPS_OF_NORM = 1e-6  # is added to the norm by which gradients are divided, as torch does
_PIECE = 1024  # numbers whose norm is taken before that of all: the sum of millions of squares loses its last digits
_MOST_NORM = 10.0  # of a parameter, by which the steps of LAMB are bounded


class FusedAdam:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980), one pass over all parameters for each step.

    The arithmetic is torch's fused kernel. Torch's class around it imports torch's compiler when it is made: a second
    of processor time at the start of a run.

    Attributes:
        learning_rate: Of the next step.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], learning_rate: float, betas: tuple[float, float], eps: float
    ) -> None:
        """Begin with moments of zero.

        Args:
            parameters: On the device where they stay.
            learning_rate: Of the first step.
            betas: Decay of both moments.
            eps: Is added to the root of the second moment.
        """
        self.learning_rate = learning_rate
        self.betas = betas
        self.eps = eps
        self._parameters = list(parameters)
        self._moments = [[torch.zeros_like(parameter) for parameter in self._parameters] for _ in _MOMENTS]
        devices = [parameter.device for parameter in self._parameters]
        self._counts = {
            device: torch.zeros(devices.count(device), dtype=torch.float32, device=device)
            for device in dict.fromkeys(devices)
        }
        counts = {device: iter(each.unbind()) for device, each in self._counts.items()}
        self._steps = [next(counts[device]) for device in devices]
        self._on_cpu = [parameter for parameter in self._parameters if parameter.is_cpu]
        self._memory, self._gradients = _side_by_side(self._on_cpu)
        self._versions: list[int] = []  # of the gradients, when they were zero
        # The kernel takes parameters of one kind.
        kinds = [(parameter.device, parameter.dtype) for parameter in self._parameters]
        self._of_one_kind = [[i for i, kind in enumerate(kinds) if kind == each] for each in dict.fromkeys(kinds)]

    def zero_grad(self) -> None:
        """Begin gradients anew, on a processor in memory that stays: else they cut its heap to pieces."""
        for parameter in self._parameters:
            parameter.grad = None
        for memory in self._memory:
            memory.zero_()
        self._versions = [gradient._version for gradient in self._gradients]
        for parameter, gradient in zip(self._on_cpu, self._gradients, strict=True):
            parameter.grad = gradient

    def drop_untouched(self) -> None:
        """Leave parameters that no loss since :meth:`zero_grad` depends on without a gradient."""
        for parameter, gradient, version in zip(self._on_cpu, self._gradients, self._versions, strict=True):
            if parameter.grad is gradient and gradient._version == version:
                parameter.grad = None

    @torch.no_grad()
    def clip(self, limit: float) -> Tensor:
        """Scale the gradients so that the norm of all of them together is no more than a limit.

        Args:
            limit: May be infinite.

        Returns:
            The norm as it was, of shape ().
        """
        if not self._are_in_memory():
            return nn.utils.clip_grad_norm_(self._parameters, limit)
        (memory,) = self._memory
        norm: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(memory.view(-1, _PIECE), dim=1))
        if limit < math.inf:
            memory.mul_((limit / (norm + _EPS_OF_NORM)).clamp_(max=1.0))
        return norm

    def _are_in_memory(self) -> bool:
        """Tell whether the memory that stays has all gradients that there are, side by side."""
        if len(self._memory) != 1 or len(self._on_cpu) != len(self._parameters):
            return False
        of_all = zip(self._parameters, self._gradients, strict=True)
        return all(parameter.grad is None or parameter.grad is gradient for parameter, gradient in of_all)

    @torch.no_grad()
    def step(self, is_wanted: Tensor | None = None) -> None:
        """Take one step; parameters without a gradient stay as they are.

        Args:
            is_wanted: Bool of shape (), on the device: whether there is to be one, which is decided there; None: yes.
        """
        for indices in self._of_one_kind:
            if used := [index for index in indices if self._parameters[index].grad is not None]:
                self._step(used, is_wanted)

    def _step(self, used: list[int], is_wanted: Tensor | None) -> None:
        steps = [self._steps[index] for index in used]
        means, squares = ([moments[index] for index in used] for moments in self._moments)
        if is_wanted is None and len(used) == len(self._parameters):
            for count in self._counts.values():
                count += 1
        elif is_wanted is None:
            torch._foreach_add_(steps, 1)
        else:
            torch._foreach_add_(steps, [is_wanted.float()] * len(steps))
        torch._fused_adam_(
            [self._parameters[index] for index in used],
            [_gradient(self._parameters[index]) for index in used],
            means,
            squares,
            [],
            steps,
            lr=self.learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            found_inf=None if is_wanted is None else (~is_wanted).float(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that another one needs to go on, as torch's optimizers do."""
        state = {
            index: {"step": step, **dict(zip(_MOMENTS, moments, strict=True))}
            for index, (step, *moments) in enumerate(zip(self._steps, *self._moments, strict=True))
        }
        group = {"lr": self.learning_rate, "betas": self.betas, "eps": self.eps, "params": list(state)}
        return {"state": state, "param_groups": [group]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another one was; rates and coefficients stay as this one was told.

        Args:
            state: What the `state_dict` of one like it returned. Parameters that have no state begin anew, as those of
                a run that had not taken a step.

        Raises:
            KeyError, RuntimeError, TypeError, ValueError: It is of other parameters, or damaged.
        """
        gathered = state["state"]
        if not isinstance(gathered, dict) or not set(gathered) <= set(range(len(self._parameters))):
            raise ValueError("its optimizer is of other parameters")
        targets = {"step": self._steps, **dict(zip(_MOMENTS, self._moments, strict=True))}
        for index, entry in gathered.items():
            for name, ours in targets.items():
                value = entry[name]
                if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != ours[index].shape:
                    raise ValueError(f"{name} of its optimizer is not of a parameter's shape")
        for name, ours in targets.items():
            for index, tensor in enumerate(ours):
                if index in gathered:
                    tensor.copy_(gathered[index][name])
                else:
                    tensor.zero_()


class Lamb(FusedAdam):
    """LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2 without weight decay).

    Each parameter's step is Adam's, scaled to the norm of the parameter itself.
    """

    def _step(self, used: list[int], is_wanted: Tensor | None) -> None:
        changed = [tensor for index in used for tensor in self._of(index)]
        former = [] if is_wanted is None else [tensor.clone() for tensor in changed]
        self._step_all(used)
        if is_wanted is not None:
            for tensor, before in zip(changed, former, strict=True):
                tensor.copy_(torch.where(is_wanted, tensor, before))

    def _of(self, index: int) -> tuple[Tensor, ...]:
        """Return all that a step changes of a parameter."""
        return self._parameters[index], self._steps[index], *(moments[index] for moments in self._moments)

    def _step_all(self, used: list[int]) -> None:
        for index in used:
            parameter, step = self._parameters[index], self._steps[index]
            gradient = _gradient(parameter)
            step += 1
            mean, square = (moments[index] for moments in self._moments)
            mean.lerp_(gradient, 1 - self.betas[0])
            square.lerp_(gradient.square(), 1 - self.betas[1])
            mean_now, square_now = (m / (1 - beta**step) for m, beta in zip((mean, square), self.betas, strict=True))
            update = mean_now / (square_now.sqrt() + self.eps)
            norm, norm_of_update = parameter.norm().clamp(max=_MOST_NORM), update.norm()
            # Where there is no proportion, as of weights of zero, it is Adam's own.
            ratio = torch.where((norm > 0) & (norm_of_update > 0), norm / norm_of_update, 1.0)
            parameter.sub_(self.learning_rate * ratio * update)


def make_optimizer(parameters: Iterable[nn.Parameter], options: OptimizerOptions) -> FusedAdam:
    """Make the optimizer that the options ask for.

    Args:
        parameters: Of the network, on the device where they stay.
        options: Adam's coefficients and the first learning rate.
    """
    betas = (options.adam_beta1, options.adam_beta2)
    kind = Lamb if options.optimizer == "lamb" else FusedAdam
    return kind(parameters, options.learning_rate, betas, options.adam_eps)


def _side_by_side(parameters: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Lay zeros for gradients of parameters side by side: one operation then reaches all of them.

    Returns:
        The memory of each type, whole pieces long, and the gradient of each parameter in it, which counts its own
        changes.
    """
    memory: dict[torch.dtype, Tensor] = {}
    for dtype in dict.fromkeys(parameter.dtype for parameter in parameters):
        size = sum(parameter.numel() for parameter in parameters if parameter.dtype == dtype)
        memory[dtype] = torch.zeros(-(-size // _PIECE) * _PIECE, dtype=dtype, device="cpu")
    used = dict.fromkeys(memory, 0)
    gradients = []
    for parameter in parameters:
        strides = torch.empty_like(parameter, device="meta").stride()
        whole = memory[parameter.dtype].data  # a view that is no view to autograd: it has a version of its own
        gradients.append(whole.as_strided(parameter.shape, strides, used[parameter.dtype]))
        used[parameter.dtype] += parameter.numel()
    return list(memory.values()), gradients


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
