"""The colours of the page (page.md 5.1)."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from reprieve.page.html import client_files

Floats = npt.NDArray[np.float64]
VISIONS = {
    "usual": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""How linear RGB is seen (Machado, Oliveira and Fernandes 2009)."""
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def listed(name: str) -> list[str]:
    """A list of words in the client's palette."""
    match = re.search(rf"const {name} = \[([^]]*)\]", client_files()["palette.js"])
    assert match is not None
    return re.findall(r'"([^"]+)"', match[1])


def seen(colour: str, vision: str) -> Floats:
    """A colour in CIELAB, as it is seen."""
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    ratios = XYZ @ np.clip(np.array(VISIONS[vision]) @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), (903.3 * ratios + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_differ_for_any_colour_vision(vision: str) -> None:
    """page.md 5.1: by 15 of CIELAB at least; a difference of 2 can just be seen."""
    colours = listed("HUES")
    assert len(colours) == 8
    near = {
        (first, second): distance
        for first, second in combinations(colours, 2)
        if (distance := float(np.linalg.norm(seen(first, vision) - seen(second, vision)))) < 15
    }
    assert near == {}
