r"""A sheet as LaTeX that any engine compiles: a tabular of the package booktabs, in ASCII."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from pbdist.errors import printable
from pbdist.query.sheet import Sheet

_ESCAPED: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # As numbers of characters: packages give these a meaning, and two of them are one character.
    '"': r"{\char34}",
    "'": r"{\char39}",
    "`": r"{\char96}",
    # A row that begins with one of these would be taken for an argument of the row before it.
    "[": "{[}",
    "*": "{*}",
    "α": r"\ensuremath{\alpha}",
    "β": r"\ensuremath{\beta}",
    "δ": r"\ensuremath{\delta}",
    "ε": r"\ensuremath{\varepsilon}",
    "η": r"\ensuremath{\eta}",
    "μ": r"\ensuremath{\mu}",
    "ξ": r"\ensuremath{\xi}",
    "ρ": r"\ensuremath{\rho}",
    "Δ": r"\ensuremath{\Delta}",
    "Π": r"\ensuremath{\Pi}",
    "Σ": r"\ensuremath{\Sigma}",
    "σ": r"\ensuremath{\sigma}",
    "×": r"\ensuremath{\times}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "∞": r"\ensuremath{\infty}",
    "√": r"\ensuremath{\surd}",
    "‖": r"\ensuremath{\Vert}",
    "·": r"\ensuremath{\cdot}",
    "²": r"\ensuremath{^2}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ı": r"\i{}",
}
#: What goes over or under a letter.
_ACCENTS: Mapping[str, str] = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0323": "d",
    "\u0327": "c",
}
_NUMBER = re.compile(r"(-?[0-9][0-9.,]*)(?:e([-+]?[0-9]+))?")
#: As an accent it would stand apart from its letters.
_POWER = "^ε", r"\ensuremath{^{\varepsilon}}"
_TWO = re.compile(r"([-,])(?=\1)")
_HEADS = {"e^ε": r"$e^{\varepsilon}$"}
_INFINITE = {"inf": r"$\infty$", "-inf": r"$-\infty$"}


def as_latex(sheet: Sheet) -> str:
    r"""Return a sheet as a tabular between its caption and its notes; it needs ``\usepackage{booktabs}``."""
    columns = sheet.printed_columns
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"\\noindent {escaped(line)}\\par\\smallskip" for line in sheet.caption),
        f"\\noindent\\begin{{tabular}}{{{''.join('r' if column.number else 'l' for column in columns)}}}",
        "\\toprule",
        _row([_HEADS.get(column.head) or escaped(column.head) for column in columns]),
        "\\midrule",
        *(
            _row(
                [
                    (as_number(text) if column.number else None) or escaped(text)
                    for column, text in zip(columns, row, strict=True)
                ]
            )
            for row in sheet.printed_rows
        ),
        "\\bottomrule",
        "\\end{tabular}\\par",
        *(f"\\smallskip\\noindent {escaped(line)}\\par" for line in sheet.notes),
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text as LaTeX that prints it; a letter that LaTeX has not everywhere as its code, such as U+4E2D."""
    plain, power = _POWER
    parts = printable(text).split(plain)
    found = power.join("".join(_ESCAPED.get(letter) or _letter(letter) for letter in part) for part in parts)
    # Two of them are no dash and no quotation mark.
    return _TWO.sub(r"\1{}", found)


def _letter(character: str) -> str:
    if character.isascii():
        return character
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"U+{ord(character):04X}"


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def as_number(text: str) -> str | None:
    """Return a printed number in the mathematics of LaTeX; None for other text."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return _INFINITE.get(text)
    mantissa, exponent = found[1].replace(",", "{,}"), found[2]
    return f"${mantissa}$" if exponent is None else f"${mantissa}\\times 10^{{{int(exponent)}}}$"
