"""The file of systems: what is read, and what is refused where."""

import math
from pathlib import Path

import pytest

from pbdist import Gaussian, InvalidInputError, Laplace, NoisyCount, Product, StudyFileError, privacy_bounds
from pbdist.mechanisms import Reversed
from pbdist.sizing.systems import NoisyCounts, default_systems_path, find_system, load_systems

SYSTEMS = load_systems()

_START = """format: 1
sources: {paper: "A paper, 2018"}
systems:
  - name: mine
    description: What is seen.
"""
_COUNTS = "    observation: {kind: counts, counts: [{shift: 2}]}\n"
_TARGETS = "    targets: [{compositions: 4, epsilon: 1, delta: 1e-4, source: paper}]\n"


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "systems.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_default_file_is_found() -> None:
    path = default_systems_path()
    assert path.is_file()
    assert load_systems(path) == SYSTEMS
    assert {
        "vuvuzela-dialing",
        "vuvuzela-conversation",
        "alpenhorn",
        "stadium",
        "counting-gaussian",
        "counting-laplace",
        "dp-sgd",
        "randomized-response",
    } <= {system.name for system in SYSTEMS}


def test_every_figure_says_where_it_is_from() -> None:
    for system in SYSTEMS:
        for item in (*system.settings, *system.targets):
            assert item.origin, (system.name, item)
        assert system.targets


def test_observations_become_the_pairs_they_describe() -> None:
    dialing = find_system("vuvuzela-dialing").observation
    conversation = find_system("vuvuzela-conversation").observation
    alpenhorn = find_system("alpenhorn").observation
    assert isinstance(dialing, NoisyCounts)
    assert isinstance(conversation, NoisyCounts)
    assert isinstance(alpenhorn, NoisyCounts)
    assert dialing.family(Laplace).pair(8000, 500) == NoisyCount(Laplace(500), 8000, 2)
    assert conversation.family(Gaussian, "redraw-and-floor").pair(15000, 2500) == Product(
        NoisyCount(Gaussian(2500), 15000, 2, "redraw-and-floor"),
        NoisyCount(Gaussian(1250), 7500, 1, "redraw-and-floor"),
    )
    mailbox = NoisyCount(Laplace(3), 100, 1, "redraw-and-floor")
    assert alpenhorn.family(Laplace).pair(100, 3) == Product(mailbox, Reversed(mailbox))


def test_published_settings() -> None:
    dialing = find_system("vuvuzela-dialing")
    assert [(one.mean, one.scale) for one in dialing.settings if one.noise is Laplace][:3] == [
        (8000, 500),
        (13000, 770),
        (20000, 1130),
    ]
    stadium = find_system("stadium")
    assert [one.mechanisms[0].canonical()["mean"] for one in stadium.settings] == [25_000, 20_000_000]


def test_exchanging_the_mailboxes_exchanges_the_inputs() -> None:
    alpenhorn = find_system("alpenhorn")
    for mechanism in alpenhorn.settings[0].mechanisms:
        each = privacy_bounds(mechanism, compositions=16, epsilon=math.log(2), direction="each")
        lower, upper = each.delta_lower.values.ravel(), each.delta_upper.values.ravel()
        assert max(lower) <= min(upper) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]\n", "systems: expected a mapping with format, systems, sources, got []"),
        ("format: 2\nsystems: []\n", "format: expected 1, got 2"),
        ("format: 1\nsystems: []\n", "systems: expected a list of systems, got []"),
        ("format: 1\nsources: {a: 3}\nsystems: [{}]\n", "sources.a: expected a text, got 3"),
        (_START + _TARGETS, "systems[0].observation: expected a value, got nothing: the key is missing"),
        (_START + _COUNTS, "systems[0].targets: expected a value, got nothing: the key is missing"),
        (_START + _COUNTS + "    targets: []\n", "systems[0].targets: expected a list of targets, got []"),
        (_START + _COUNTS + _TARGETS + "    colour: red\n", "systems[0].colour: expected one of name, description"),
        (
            _START + _COUNTS + _TARGETS + "    sources: [book]\n",
            "sources[0]: expected one of paper, got 'b",
        ),
        (
            _START + _COUNTS + _TARGETS.replace("1e-4", "1"),
            "[0].delta: expected a number above 0 and below 1, got 1",
        ),
        (
            _START + _COUNTS + _TARGETS.replace("compositions: 4", "compositions: 0"),
            "targets[0].compositions: expected an integer from 1 to 2^62, got",
        ),
        (_START + _COUNTS + _TARGETS.replace(", source: paper", ""), "targets[0]: expected a source or an example"),
        (_START + _COUNTS + _TARGETS.replace("epsilon: 1", "epsilon: 1, exp_epsilon: 2"), "got both"),
        (
            _START + _COUNTS + _TARGETS.replace("epsilon: 1", "exp_epsilon: 0.5"),
            "a number of at least 1, got 0.5",
        ),
        (
            _START + _COUNTS + _TARGETS.replace("epsilon: 1", "epsilon: -1"),
            "targets[0].epsilon: expected a number from 0 to 1e+150",
        ),
        (_START + "    observation: {kind: Cauchy}\n" + _TARGETS, "observation.kind: expected a kind among counts, La"),
        (_START + "    observation: {kind: counts, counts: []}\n" + _TARGETS, "counts: expected a list of counts"),
        (
            _START + "    observation: {kind: counts, counts: [{shift: 2}], readings: [round]}\n" + _TARGETS,
            "readings[0]: expected one of clamp-and-ceil",
        ),
        (
            _START + _COUNTS + _TARGETS + "    settings: [{name: a, noise: Cauchy, mean: 1, scale: 1, example: it}]\n",
            "systems[0].settings[0].noise: expected one of Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian, got",
        ),
        (
            _START
            + _COUNTS
            + _TARGETS
            + "    settings: [{name: a, noise: Laplace, mean: 1, scale: -1, example: it}]\n",
            "systems[0].settings[0]: Laplace.scale: expected",
        ),
        (
            _START + _COUNTS.replace("2}", "0}") + _TARGETS,
            "observation.counts[0].shift: expected a whole number from 1 to 4611686018427387904, got 0",
        ),
        (
            _START + _COUNTS.replace("2}", "2, share: 0}") + _TARGETS,
            "observation.counts[0].share: expected a number above 0, got 0",
        ),
        (
            _START + "    observation: {kind: SubsampledGaussian, rate: 7}\n" + _TARGETS,
            "systems[0].observation: SubsampledGaussian.rate: expected",
        ),
        *[
            (
                _START + "    observation: {kind: Poisson}\n" + _TARGETS + "    settings: [{name: a, example: it, "
                f"servers: {servers}, messages: {messages}}}]\n",
                f"systems[0].settings[0].{problem}",
            )
            for servers, messages, problem in (
                ("-2", "-10", "servers: expected a whole number from 1 to 4611686018427387904, got -2"),
                ("2", "-10", "messages: expected a number above 0, got -10"),
                ("2.5", "10", "servers: expected a whole number from 1 to 4611686018427387904, got 2.5"),
                ("2", "0", "messages: expected a number above 0, got 0"),
            )
        ],
        (
            _START + _COUNTS + _TARGETS + "  - name: mine\n    description: Again.\n" + _COUNTS + _TARGETS,
            "systems[1].name: expected each name once, got 'mine' again",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_systems(_written(tmp_path, text))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'systems.yaml'}:")
    assert problem in message


def test_the_line_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path, _START + _COUNTS + _TARGETS.replace("1e-4", "many"))
    with pytest.raises(StudyFileError, match=r"systems.yaml:7: systems\[0\].targets\[0\].delta: expected"):
        load_systems(path)


def test_a_system_has_the_sources_of_its_figures(tmp_path: Path) -> None:
    system = find_system("mine", _written(tmp_path, _START + _COUNTS + _TARGETS))
    assert system.sources == {"paper": "A paper, 2018"}


def test_unknown_systems_and_files() -> None:
    with pytest.raises(InvalidInputError, match=r"system: expected one of vuvuzela-dialing, .*, got 'tor'"):
        find_system("tor")
    with pytest.raises(InvalidInputError, match="one of your own needs its file too: --systems FILE"):
        find_system("tor")
    with pytest.raises(StudyFileError, match="expected a readable systems file"):
        load_systems("/nowhere/systems.yaml")
