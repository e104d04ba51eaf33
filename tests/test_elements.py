"""Elements against ASE's tables."""

from __future__ import annotations

import ase.data
import numpy as np
import pytest

from mlpot import elements


def test_symbols_and_numbers_are_inverse():
    assert list(elements.SYMBOLS) == ase.data.chemical_symbols
    for number, symbol in enumerate(elements.SYMBOLS):
        assert elements.symbol(number) == symbol
        assert elements.atomic_number(symbol) == number


def test_covalent_radii():
    assert len(elements.COVALENT_RADII) == len(elements.SYMBOLS)
    np.testing.assert_array_equal(elements.COVALENT_RADII[1:97], ase.data.covalent_radii[1:97])
    assert set(elements.COVALENT_RADII[97:]) == {1.69}


def test_format():
    assert elements.format_elements([6, 1, 1, np.int32(8)]) == "H, C, O"
    assert elements.format_elements([]) == ""


def test_errors():
    with pytest.raises(ValueError, match="119"):
        elements.symbol(119)
    with pytest.raises(ValueError, match="-1"):
        elements.symbol(-1)
    with pytest.raises(ValueError, match="did you mean 'Cu'"):
        elements.atomic_number("CU")
    with pytest.raises(ValueError, match="unknown element 'Qq'"):
        elements.atomic_number("Qq")
