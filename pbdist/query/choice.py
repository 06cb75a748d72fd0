"""Choose the mechanism of a question that names none, where the store leaves no choice."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.query.contents_sheet import parameters_in_words
from pbdist.query.study import Study
from pbdist.store.columns import column_of

#: Labels that an error names, with their parameters.
_MOST_NAMED = 8


def only_mechanism(study: Study, noise: Mapping[str, Sequence[Any]], *, refine: bool) -> str:
    """Return the one label of a study that can answer for some parameters of the noise.

    Parameters
    ----------
    study
        The study in the store.
    noise
        The values of each parameter that is given.
    refine
        Whether points may be computed: then a label can answer for every setting of its kind.

    Raises
    ------
    InvalidInputError
        Several labels can, or none; the text names them and their parameters.
    """
    labels = list(dict.fromkeys(map(str, column_of(study.spec.cells, "mechanism"))))
    able = [label for label in labels if _can_answer(study, label, noise, refine=refine)] if len(labels) > 1 else labels
    if len(able) == 1:
        return able[0]
    what = "with these parameters" if noise else "of the store"
    if not able:
        what, able = "of the store, and parameters that it has", labels
    contents = study.contents()
    named = [f"{shown(label)} ({parameters_in_words(contents, label)})" for label in able[:_MOST_NAMED]]
    more = f", .. ({len(able)} in all)" if len(able) > _MOST_NAMED else ""
    raise InvalidInputError(f"--mechanism: expected one {what}, got none: it may be {', '.join(named)}{more}")


def _can_answer(study: Study, label: str, noise: Mapping[str, Sequence[Any]], *, refine: bool) -> bool:
    """Whether a label has a setting of these parameters, or one that bounds it; doubtful cases count."""
    for values in product(*noise.values()):
        try:
            setting = study.queries.setting(label, dict(zip(noise, values, strict=True)))
        except OffGridError:
            continue
        except InvalidInputError:
            # Several settings have these parameters, or a value is out of its range: its own error says more.
            return True
        if refine or len(setting.above):
            return True
    return False
