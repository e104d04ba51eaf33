"""Chemical elements: symbols and covalent radii."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from operator import index
from typing import SupportsIndex

#: Symbols by atomic number; index 0 is the placeholder "X".
SYMBOLS: tuple[str, ...] = tuple(
    "X "
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar "
    "K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr "
    "Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe "
    "Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu "
    "Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn "
    "Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr "
    "Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og".split()
)

_NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS)}

# fmt: off
_RADII = (
    0.31, 0.28,
    1.28, 0.96, 0.84, 0.76, 0.71, 0.66, 0.57, 0.58,
    1.66, 1.41, 1.21, 1.11, 1.07, 1.05, 1.02, 1.06,
    2.03, 1.76, 1.70, 1.60, 1.53, 1.39, 1.39, 1.32, 1.26, 1.24, 1.32, 1.22,
    1.22, 1.20, 1.19, 1.20, 1.20, 1.16,
    2.20, 1.95, 1.90, 1.75, 1.64, 1.54, 1.47, 1.46, 1.42, 1.39, 1.45, 1.44,
    1.42, 1.39, 1.39, 1.38, 1.39, 1.40,
    2.44, 2.15, 2.07, 2.04, 2.03, 2.01, 1.99, 1.98, 1.98, 1.96, 1.94, 1.92, 1.92, 1.89, 1.90,
    1.87, 1.87, 1.75, 1.70, 1.62, 1.51, 1.44, 1.41, 1.36, 1.36, 1.32,
    1.45, 1.46, 1.48, 1.40, 1.50, 1.50,
    2.60, 2.21, 2.15, 2.06, 2.00, 1.96, 1.90, 1.87, 1.80, 1.69,
)
# fmt: on

#: Covalent radii in Angstrom by atomic number (Cordero et al., Dalton Trans. 2008, 2832; sp3
#: carbon, low-spin metals). The table of the paper ends at curium, whose radius stands for all
#: heavier elements; index 0 (no atom) is 0.
COVALENT_RADII: tuple[float, ...] = (
    0.0,
    *_RADII,
    *(_RADII[-1] for _ in range(len(SYMBOLS) - 1 - len(_RADII))),
)


def symbol(number: SupportsIndex) -> str:
    """Symbol of the element with this atomic number.

    Raises:
        ValueError: no element has this number.
    """
    if not 0 <= index(number) < len(SYMBOLS):
        raise ValueError(f"no element has atomic number {number}: give 1 to {len(SYMBOLS) - 1}")
    return SYMBOLS[index(number)]


def atomic_number(name: str) -> int:
    """Atomic number of the element with this symbol ("Cu" -> 29).

    Raises:
        ValueError: no element has this symbol.
    """
    number = _NUMBERS.get(name)
    if number is None:
        close = get_close_matches(name.strip().capitalize(), SYMBOLS[1:], n=1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"unknown element {name!r}{hint}")
    return number


def format_elements(numbers: Iterable[SupportsIndex]) -> str:
    """Readable list of elements, each once, by atomic number: [6, 1, 1] -> "H, C"."""
    return ", ".join(symbol(number) for number in sorted({index(number) for number in numbers}))
