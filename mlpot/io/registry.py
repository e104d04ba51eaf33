"""Published potentials that mlpot knows by name: where they come from and on what terms."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class WheelMember:
    """A file inside a wheel of a package index.

    Args:
        requirement: for pip, with the version.
        package: what an installation is imported as.
        member: path within the wheel and within an installation.
    """

    requirement: str
    package: str
    member: str


@dataclass(frozen=True)
class Published:
    """A published potential.

    Args:
        name: what users call it.
        file: name of the file.
        size: bytes.
        sha256: of the file.
        source: where the file lies: an address, or a wheel.
        licence: of the weights.
        citation: what users cite.
        training_data: data and level of theory.
        note: what users should know.
    """

    name: str
    file: str
    size: int
    sha256: str
    source: str | WheelMember
    licence: str
    citation: str
    training_data: str
    note: str = ""

    def metadata(self) -> dict[str, str]:
        """What a converted file says of its origin."""
        source = self.source
        if isinstance(source, WheelMember):
            source = f"{source.member} in the Python package {source.requirement}"
        found = {
            "name": self.name,
            "source": source,
            "source_sha256": self.sha256,
            "licence": self.licence,
            "citation": self.citation,
            "training_data": self.training_data,
            "note": self.note,
        }
        return {key: text for key, text in found.items() if text}


_NEQUIX = (
    "https://raw.githubusercontent.com/atomicarchitects/nequix/"
    "0ffdf881603d2c97f9105c64c3ec2df74dc1c224/models/"
)
_MPTRJ = "MPtrj: relaxations of the Materials Project, PBE and PBE+U"
_SEVENNET = (
    "Y. Park, J. Kim, S. Hwang, S. Han, J. Chem. Theory Comput. 20, 4857 (2024), "
    "doi:10.1021/acs.jctc.4c00190"
)
_HANDED = (
    "its energies of mirror images differ a little, as all its features count as even under "
    "inversion"
)
_LICENCE_OF_SEVENNET = "MIT (as in the package's version 0.13.0; until 0.11 it came under GPL-3.0)"

PUBLISHED: dict[str, Published] = {
    entry.name: entry
    for entry in (
        Published(
            name="nequix-mp-1",
            file="nequix-mp-1.nqx",
            size=2842366,
            sha256="1647af8e627e1afa11e2bfadeab0797326513a521afd7dd01606a96f56783eee",
            source=f"{_NEQUIX}nequix-mp-1.nqx",
            licence="MIT",
            citation="T. Koker et al., arXiv:2508.16067",
            training_data=_MPTRJ,
        ),
        Published(
            name="nequix-mp-1-pft",
            file="nequix-mp-1-pft.nqx",
            size=2842840,
            sha256="a88aeaed71fd447572dc57af21d469207d7737b85a6dbb66f8c38156f175c5f1",
            source=f"{_NEQUIX}nequix-mp-1-pft.nqx",
            licence="MIT",
            citation="arXiv:2601.07742; T. Koker et al., arXiv:2508.16067",
            training_data=f"{_MPTRJ}; then Hessians of PBE phonon calculations",
        ),
        Published(
            name="sevennet-0",
            file="checkpoint_sevennet_0.pth",
            size=10268648,
            sha256="7052cb42b7b3be42b40b97fa0d21077a48c54b5548948fc4dcf346629f813c36",
            source=WheelMember(
                "sevenn==0.13.0",
                "sevenn",
                "sevenn/pretrained_potentials/SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth",
            ),
            licence=_LICENCE_OF_SEVENNET,
            citation=_SEVENNET,
            training_data=_MPTRJ,
            note=f"the version of 11 July 2024; {_HANDED}; second derivatives jump at 4.5 Angstrom",
        ),
        Published(
            name="sevennet-l3i5",
            file="checkpoint_l3i5.pth",
            size=14345754,
            sha256="a7ff190d41efe5b8317a03d20a468e4036a1a3e64e0b14fdbab64ac3f4bfc09d",
            source=WheelMember(
                "sevenn==0.13.0",
                "sevenn",
                "sevenn/pretrained_potentials/SevenNet_l3i5/checkpoint_l3i5.pth",
            ),
            licence=_LICENCE_OF_SEVENNET,
            citation=_SEVENNET,
            training_data=_MPTRJ,
            note=_HANDED,
        ),
    )
}


def published(name: str) -> Published:
    """The entry of a name.

    Raises:
        ValueError: an unknown name; the closest one and all of them are given.
    """
    if name in PUBLISHED:
        return PUBLISHED[name]
    close = difflib.get_close_matches(name, PUBLISHED, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
        f"no published potential is called {name!r}; {hint}The names are {', '.join(PUBLISHED)}"
    )


def by_sha256(digest: str) -> Published | None:
    """The entry whose file has this digest, if any."""
    return next((entry for entry in PUBLISHED.values() if entry.sha256 == digest), None)
