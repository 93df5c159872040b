"""How Numba compiles kernels: with an own pass for their parts, and fewer garbage collections.

Numba has a pass that inlines functions where they are called. It copies a part twice, block by
block, and with each block all variables of the part; our parts have hundreds of both, and the
copies took a quarter of the time of a warm-up. Here nothing is copied: the code of a part is made
anew for each call.

Compiling makes millions of objects, most of which last until a kernel is done. Garbage collections
in between took a tenth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.inline_closurecall import InlineWorker, callee_ir_validator
from numba.core.untyped_passes import InlineInlinables

__all__ = ["KernelCompiler"]

_RARE: Final = (200_000, 20, 100)
"""The thresholds of the garbage collector while a kernel is compiled, at least."""


class KernelCompiler(CompilerBase):  # type: ignore[misc]  # Numba's classes are untyped
    """Numba's compiler, with its pass that inlines functions replaced by ours."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a kernel, after those that it calls and that have no machine code yet."""
        with _collect_rarely():
            return super().compile_extra(function)

    def define_pipelines(self) -> list[PassManager]:
        """The passes, in the order in which they run."""
        return [_with_inlined_parts(DefaultPassBuilder.define_nopython_pipeline(self.state))]


@register_pass(mutates_CFG=True, analysis_only=False)
class InlineParts(InlineInlinables):  # type: ignore[misc]
    """Inlines what is to be inlined always."""

    _name = "inline_parts"

    def _do_work(self, state: Any, *call: Any) -> Any:
        """Inline one call, by our own worker, which is the last argument, instead of Numba's."""
        return super()._do_work(state, *call[:-1], _PartInliner(state))


class _PartInliner(InlineWorker):  # type: ignore[misc]
    """Inlines one call."""

    def __init__(self, state: Any) -> None:
        context = (state.typingctx, state.targetctx, state.locals, state.pipeline, state.flags)
        super().__init__(*context, validator=callee_ir_validator)
        define_default = self._compiler_pipeline
        self._compiler_pipeline: Callable[..., PassManager] = lambda part: _with_inlined_parts(
            define_default(part)
        )

    def run_untyped_passes(self, *part: Any) -> Any:
        """The code of a part, which is made for this call and changed by nothing else."""
        code = super().run_untyped_passes(*part)
        for block in code.blocks.values():
            block.__class__ = _UncopiedBlock
        return code


class _UncopiedBlock(ir.Block):  # type: ignore[misc]
    """A block of a part. Numba copies it before it changes it, and keeps what it copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _UncopiedBlock:
        return self


@contextmanager
def _collect_rarely() -> Iterator[None]:
    """Collect garbage after many more objects than usual."""
    before = gc.get_threshold()
    # A threshold of 0 turns the collector off.
    rare = tuple(max(own, least) if own else 0 for own, least in zip(before, _RARE, strict=True))
    try:
        gc.set_threshold(*rare)
        yield
    finally:
        # Thresholds that another thread has set in the meantime stay.
        if gc.get_threshold() == rare:
            gc.set_threshold(*before)


def _with_inlined_parts(passes: PassManager) -> PassManager:
    """The same passes, with ours in the place of Numba's."""
    passes.passes = [
        (InlineParts if each is InlineInlinables else each, title) for each, title in passes.passes
    ]
    passes.finalize()
    return passes
