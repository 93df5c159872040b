"""Inlines the parts of kernels where they are called.

Numba has a pass for this. It copies a part block by block, and with each block all variables of the
part; our parts have hundreds of both, and the copies took a quarter of the time of a warm-up. Here
the copied blocks share the variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.inline_closurecall import InlineWorker, callee_ir_validator
from numba.core.untyped_passes import InlineInlinables

__all__ = ["KernelCompiler"]


class KernelCompiler(CompilerBase):  # type: ignore[misc]  # Numba's classes are untyped
    """Numba's compiler, with its pass that inlines functions replaced by ours."""

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
        """The code of a part, which is made for this call: the variables are those of one copy."""
        code = super().run_untyped_passes(*part)
        for block in code.blocks.values():
            block.scope.__class__ = _SharedScope
        return code


class _SharedScope(ir.Scope):  # type: ignore[misc]
    """The variables of a part."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _SharedScope:
        return self


def _with_inlined_parts(passes: PassManager) -> PassManager:
    """The same passes, with ours in the place of Numba's."""
    passes.passes = [
        (InlineParts if each is InlineInlinables else each, title) for each, title in passes.passes
    ]
    passes.finalize()
    return passes
