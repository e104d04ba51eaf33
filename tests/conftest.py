"""Set-up of all tests: annotations of shapes and types are checked while they run."""

from __future__ import annotations

import hypothesis
from jaxtyping import install_import_hook

# Every function of the package then checks its jaxtyping annotations, such as
# Float[mx.array, "n_atoms 3"], at each call; an int may stand for a float, as everywhere.
install_import_hook("mlpot", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# The same examples at every run, however slow the machine is.
hypothesis.settings.register_profile(
    "mlpot", derandomize=True, deadline=None, database=None, max_examples=50
)
hypothesis.settings.load_profile("mlpot")
