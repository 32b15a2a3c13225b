"""The export of target times for llama.cpp, by the number of tokens in a pass."""

from __future__ import annotations

import numpy as np

from ..documents.document import PlannerError
from .task import Export, Task


class LlamaCppCosts:
    """The measured t(n) as `GGML_BATCH_COSTS`: each token's share of a pass, t(n) / (n t(1)).

    The form is that of pull request 17034 of llama.cpp, by the lists that stand in it.
    """

    def export(self, task: Task) -> Export:
        costs = task.times(1)
        if costs.verify.first > 1:
            raise PlannerError(
                f"profile: got times of passes over {costs.verify.first} tokens and more, expected "
                "those over 1, by which llama.cpp's costs count; profile with fewer nodes too"
            )
        counts = np.arange(1, costs.verify.last + 1)
        shares = costs.verify.ms / (counts * costs.verify.ms[0])
        listed = ",".join(f"{share:.4g}" for share in shares)
        notes = [
            "a proposal (llama.cpp pull request 17034, open), which no released llama.cpp reads; "
            "entry n is the time of a pass over n tokens, by n and by the time of a pass over one",
            f"passes of {task.timed_program} at context {costs.context}",
        ]
        if task.timed_program != "llamacpp":
            notes.append("llama.cpp's own are measured by planner profile --engine llamacpp")
        return Export(f'export GGML_BATCH_COSTS="{listed}"\n', None, notes)
