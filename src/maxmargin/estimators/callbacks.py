"""scikit-learn's callbacks (1.9 or later): ``model.set_callbacks(ProgressBar())``, and those of searches and pipelines.

A fit is one task: its callbacks are called when it begins and when it ends, then with the fitted machine. What happens
in between is told by ``callback``, ``verbose`` and ``history_``. Nothing is imported before somebody sets a callback.
"""

from __future__ import annotations

import functools
import inspect
from importlib.util import find_spec
from typing import Any

from sklearn.utils.metaestimators import available_if

from ..monitor import fitting

__all__ = ["Callbacks"]


@functools.cache
def _known() -> bool:
    """Whether this scikit-learn has callbacks."""
    return find_spec("sklearn.callback") is not None


def _calls(fit: Any) -> Any:
    """A fit that calls who was set to be called; nobody is, as a rule, and then it is the fit itself."""

    @functools.wraps(fit)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        with fitting(self):
            return called(self, *args, **kwargs)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = vars(self)
        if "_callback_fit_ctx" in own or not ("_skl_callbacks" in own or "_parent_callback_ctx" in own):
            return fit(self, *args, **kwargs)
        from sklearn.callback import CallbackSupportMixin, with_callbacks

        given = inspect.signature(fit).bind(self, *args, **kwargs).arguments
        metadata = {"sample_weight": given.get("sample_weight")}
        data = {"estimator": self, "X": given.get("X"), "y": given.get("y"), "metadata": metadata}

        def run(machine: Any) -> Any:
            context = CallbackSupportMixin._init_callback_context(machine, max_subtasks=0)
            context.call_on_fit_task_begin(**data)
            fit(machine, *args, **kwargs)
            context.call_on_fit_task_end(**data, reconstruction_attributes={})  # the machine as it is
            return machine

        return with_callbacks(run)(self)

    return watched


class Callbacks:
    """A machine whose ``fit`` scikit-learn's callbacks can follow."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = _calls(vars(cls)["fit"])  # type: ignore[attr-defined]

    @available_if(lambda machine: _known())
    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set scikit-learn's callbacks, in place of those before.

        Parameters
        ----------
        *callbacks : instances of scikit-learn's callbacks, such as ``sklearn.callback.ProgressBar()``

        Returns
        -------
        self
        """
        from sklearn.callback import CallbackSupportMixin

        return CallbackSupportMixin.set_callbacks(self, *callbacks)
