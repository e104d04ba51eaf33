"""Index formulas such as ``ijk=-jik`` and the group of signed permutations they generate."""

from __future__ import annotations

SignedPermutations = dict[tuple[int, ...], int]


def parse_formula(formula: str) -> tuple[str, SignedPermutations]:
    """Indices of a formula, and the group of its permutations.

    Args:
        formula: for example ``"ij=-ji"``: tensors with T_ij = -T_ji.

    Returns:
        The indices in the order of the first term, and for each permutation of the group its sign.
        The permutation p with sign s means: T equals s times T with axes transposed by p. All
        signs are 0 if the formula contradicts itself (T = -T), which only zero fulfils.

    Raises:
        ValueError: terms that are no permutations of each other, or an index that occurs twice.
    """
    terms = [term.strip() for term in formula.replace(" ", "").split("=")]
    indices = terms[0]
    if not (indices.isascii() and indices.isalpha()) or len(set(indices)) != len(indices):
        raise ValueError(
            f"the formula {formula!r} starts with {indices!r}; "
            'write different letters, as in "ij=-ji"'
        )
    generators = []
    for term in terms[1:]:
        sign, letters = (-1, term[1:]) if term.startswith("-") else (1, term)
        if sorted(letters) != sorted(indices):
            raise ValueError(
                f"{letters!r} in the formula {formula!r} is not a permutation of {indices!r}"
            )
        generators.append((tuple(indices.index(letter) for letter in letters), sign))
    return indices, _close(generators, len(indices))


def _close(generators: list[tuple[tuple[int, ...], int]], n: int) -> SignedPermutations:
    group: SignedPermutations = {tuple(range(n)): 1}
    fresh = list(group.items())
    consistent = True
    while fresh:
        added = []
        for first, sign_first in fresh:
            for second, sign_second in generators:
                product = tuple(first[i] for i in second)
                sign = sign_first * sign_second
                if product not in group:
                    group[product] = sign
                    added.append((product, sign))
                elif group[product] != sign:
                    consistent = False
        fresh = added
    return group if consistent else dict.fromkeys(group, 0)
