"""The palette of the pages: hues that colour-blind readers can distinguish, and sufficient contrast."""

import math
import re
from itertools import combinations

import pytest

from cclm.report.document import asset

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
SIMULATIONS = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
LEAST = {"normal": 7.5, "protanopia": 7.5, "deuteranopia": 7.5, "tritanopia": 5.0}


def colours(mode: str) -> dict[str, str]:
    """The colours among the custom properties of page.css, light or dark."""
    light, dark, *_ = re.findall(r":root \{(.*?)\n *\}", asset("page.css"), re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if mode == "light" else dark))


def linear(colour: str) -> list[float]:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]


def oklab(rgb: list[float]) -> tuple[float, float, float]:
    """OKLab (Ottosson 2020), times 100: a distance of about 2 is just visible."""
    r, g, b = (min(max(share, 0.0), 1.0) for share in rgb)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        100 * (0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short),
        100 * (1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short),
        100 * (0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short),
    )


def seen(colour: str, sight: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    return oklab([sum(a * b for a, b in zip(row, rgb, strict=True)) for row in SIMULATIONS[sight]])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    lights = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True)) for colour in (one, other)
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("sight", SIMULATIONS)
@pytest.mark.parametrize("row", ["h", "l"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_two_hues_can_be_told_apart(mode: str, row: str, sight: str) -> None:
    hues = [colours(mode)[f"{row}{i}"] for i in range(8)]
    assert min(math.dist(seen(a, sight), seen(b, sight)) for a, b in combinations(hues, 2)) >= LEAST[sight]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_letters_can_be_read_on_every_hue(mode: str) -> None:
    found = colours("light") | colours(mode)
    for i in range(8):
        assert contrast(found[f"h{i}"], found["on-h"]) >= (4.5 if mode == "light" else 3.0)
        assert contrast(found[f"l{i}"], found["on-l"]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_can_be_read_on_the_page(mode: str) -> None:
    found = colours("light") | colours(mode)
    assert all(contrast(found[name], found["ground"]) >= 4.5 for name in ("ink", "quiet"))
