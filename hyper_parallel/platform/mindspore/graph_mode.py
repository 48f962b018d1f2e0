# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What MindSpore's compiler (`ms.jit`) is told where it meets what only runs in PyNative mode.

It has three ways to capture a function. "ast" parses the source of what is called: here of a function that raises.
"trace" runs everything once and records MindSpore's own operators, so that what a kernel computes on the host would
stay what it was in the first call, and a gradient would not be the function's own. Both are refused. "bytecode"
compiles what lies between the calls, and runs these as they are.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NoReturn

import mindspore as ms
from mindspore._c_expression import TraceRecorder
from mindspore.graph import jit_trace
from mindspore.graph.jit_config import _DEFAULT_JIT_CONFIG
from mindspore.graph.jit_context import jit_context, set_jit_context


def refuse_graph_mode(function: type) -> None:
    """Make `apply` of a function's class raise a RuntimeError that names it, where it is to be compiled or traced."""
    inherited = function.apply.__func__  # type: ignore[attr-defined]
    eager = getattr(inherited, "_eager", inherited)
    message = refusal("run", getattr(function, "_op_name", None) or function.__name__)

    @functools.wraps(eager)
    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if jit_context() is not None:
            check_not_traced(message)
        return eager(cls, *args, **kwargs)

    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(message)

    # The parser takes the source of the function that it finds by this attribute.
    apply.__wrapped__ = refuse
    apply._eager = eager  # type: ignore[attr-defined]
    function.apply = classmethod(apply)  # type: ignore[attr-defined]


def refusal(verb: str, what: str) -> str:
    return f"MindSpore's graph mode (ms.jit) cannot {verb} {what}; call it outside of the jit function (PyNative mode)"


def check_not_traced(message: str) -> None:
    """Raise RuntimeError if a function is being traced, and end the tracing, which MindSpore would go on with."""
    context = jit_context()
    if context is None or not _is_traced():
        return
    if not context.is_nested():
        # MindSpore knows no other way out than to compile what it has recorded, here nothing but a number.
        TraceRecorder.get_instance().end_graph([__file__], [0], _DEFAULT_JIT_CONFIG, ms.Tensor(0))
        jit_trace._trace_compile_cache.discard(context.phase)
        jit_trace._using_trace = False
    set_jit_context(None)
    raise RuntimeError(message)


def _is_traced() -> bool:
    # When a traced function has failed, MindSpore goes on as if it were still running; the stack tells.
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals is jit_trace.__dict__:
            # Not what begins or ends the recording, and prints the arguments.
            return frame.f_code.co_name in ("jit_trace_wrap", "nested_run")
    return False
