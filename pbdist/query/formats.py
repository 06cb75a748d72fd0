"""Tables, by the name under which other rooms import them from here: they are in `pbdist.tables`."""

from pbdist.tables import Cell, Column, Sheet, Shown, as_number, escaped, head_of

__all__ = ["Cell", "Column", "Sheet", "Shown", "as_number", "escaped", "head_of"]
