# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""torch's modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import torch
from torch.utils import checkpoint

from hyper_parallel.platform.modules import Modules
from hyper_parallel.platform.torch.opaque import opaque


class TorchModules(Modules):
    """``torch.nn.Module``."""

    Module: ClassVar[type] = torch.nn.Module
    forward_name: ClassVar[str] = "forward"

    def named_modules(self, module: Any) -> dict[str, Any]:
        return dict(module.named_modules(remove_duplicate=False))

    def module_table(self, module: Any) -> dict[str, Any]:
        table: dict[str, Any] = module._modules
        return table

    def parameter_table(self, module: Any) -> dict[str, Any]:
        table: dict[str, Any] = module._parameters
        return table

    def is_trainable(self, parameter: Any) -> bool:
        trainable: bool = parameter.requires_grad
        return trainable

    def has_gradient(self, parameter: Any) -> bool:
        return parameter.grad is not None

    def copied_part(self, part: Any) -> Any:
        return part.detach().clone(memory_format=torch.contiguous_format)

    def set_value(self, parameter: Any, value: Any) -> None:
        parameter.data = value

    @contextmanager
    def recomputed_within(self, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        # A reentrant checkpoint records a graph of its own in the backward, and torch has no hook for it. (The other
        # kind only fills in the values of the graph that the forward has recorded.)
        function: Any = checkpoint.CheckpointFunction

        class Within:
            @staticmethod
            def apply(run: Callable[..., Any], *args: Any) -> Any:
                def run_within(*inputs: Any) -> Any:
                    with around():
                        return run(*inputs)

                return function.apply(run_within, *args)

        checkpoint.CheckpointFunction = Within  # type: ignore[misc, assignment]
        try:
            yield
        finally:
            checkpoint.CheckpointFunction = function  # type: ignore[misc]

    def may_have_gradient(self, tensor: Any) -> bool:
        wanted: bool = tensor.requires_grad and torch.is_grad_enabled()
        return wanted

    def is_sparse(self, gradient: Any) -> bool:
        sparse: bool = gradient.layout != torch.strided
        return sparse

    def detached(self, tensor: Any) -> Any:
        return tensor.detach()

    def to_array(self, tensor: Any) -> Any:
        values = tensor.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()

    def differentiated_once(self, results: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        message = "gradients through the boundary of a module have no derivative: differentiate a sharded module once"
        return opaque(message, results, *inputs)

    def apply_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function.apply(*args, **kwargs)
