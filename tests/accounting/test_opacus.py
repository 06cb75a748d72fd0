"""A model trained with Opacus and our accountant: what is counted, told, and continued from a checkpoint.

Marked `opacus`: it needs torch and Opacus, which `.ci/run` installs for these tests alone.
"""

import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pbdist import Accountant, InvalidInputError, MissingDependencyError, SubsampledGaussian, epsilon_bounds
from pbdist.accounting import dpsgd

needs_opacus = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off:UserWarning"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
]

EXAMPLES, BATCH, NOISE, DELTA = 240, 20, 1.1, 1e-5
STEPS_OF_EPOCH = EXAMPLES // BATCH
RATE = 1 / STEPS_OF_EPOCH


def marked(test: Any) -> Any:
    for mark in needs_opacus:
        test = mark(test)
    return test


class Training:
    """A small model, trained on synthetic data by an engine of Opacus, its steps counted by the optimizer itself."""

    def __init__(
        self, accountant: str = "pbdist", seed: int = 0, loader: dict[str, Any] | None = None, **options: Any
    ) -> None:
        import torch
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        from pbdist.accounting import opacus as ours

        ours.register()
        torch.manual_seed(seed)
        inputs = torch.randn(EXAMPLES, 5)
        data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
        model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        self.engine = PrivacyEngine(accountant=accountant)
        make = self.engine.make_private_with_epsilon if "target_epsilon" in options else self.engine.make_private
        if "target_epsilon" not in options:
            options.setdefault("noise_multiplier", NOISE)
        self.model, self.optimizer, self.loader = make(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, **(loader or {"batch_size": BATCH})),
            max_grad_norm=1.0,
            **options,
        )
        self.loss = torch.nn.CrossEntropyLoss()
        self.steps = 0
        self.optimizer.original_optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        self.steps += 1

    def epoch(self) -> None:
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            self.loss(self.model(inputs), labels).backward()
            self.optimizer.step()

    @property
    def accountant(self) -> Any:
        return self.engine.accountant


def bounds_of(rounds: list[tuple[SubsampledGaussian, int]]) -> tuple[float, float]:
    found = epsilon_bounds(rounds, compositions=1, delta=DELTA)
    return found.epsilon_lower.item(), found.epsilon_upper.item()


def test_it_says_what_is_missing_where_opacus_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pbdist.accounting.opacus", raising=False)
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[opacus\]'"):
        __import__("pbdist.accounting.opacus")


@marked
def test_opacus_makes_it_by_its_name() -> None:
    from opacus.accountants import create_accountant

    from pbdist.accounting.opacus import OpacusAccountant, register

    register()
    register()
    found = create_accountant("pbdist")
    assert type(found) is OpacusAccountant
    assert found.mechanism() == "pbdist"
    assert (len(found), found.history, found.get_epsilon(DELTA)) == (0, [], 0.0)


@marked
def test_two_epochs_are_told_as_the_bounds_of_the_steps_taken() -> None:
    run = Training()
    for _ in range(2):
        run.epoch()
    assert run.steps == 2 * STEPS_OF_EPOCH
    assert run.accountant.history == [(NOISE, RATE, run.steps)]
    assert len(run.accountant) == run.steps
    lower, upper = bounds_of([(SubsampledGaussian(NOISE, RATE), run.steps)])
    assert 0.0 < lower <= upper <= 1.002 * lower
    assert run.engine.get_epsilon(DELTA) == upper
    told = run.accountant.epsilon_bounds(DELTA)
    assert (told.lower, told.upper) == (lower, upper)
    assert told.adjacency == "add-or-remove"
    spent = run.accountant.delta_bounds(upper)
    assert 0.99 * DELTA < spent.lower <= spent.upper < 1.01 * DELTA
    assert run.accountant.accountant == Accountant().step(noise_multiplier=NOISE, sample_rate=RATE, steps=run.steps)


@marked
def test_the_page_for_those_who_come_from_opacus_runs(capsys: pytest.CaptureFixture[str]) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    page = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
    ((before, after),) = [
        tuple(block.split("# .. train, then:\n"))
        for block in re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    ]
    model = torch.nn.Linear(3, 2)
    data = TensorDataset(torch.randn(40, 3), torch.zeros(40).long())
    names: dict[str, Any] = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(data, batch_size=10),
    }
    exec(before, names)  # noqa: S102 -- our own text
    for inputs, labels in names["data_loader"]:
        names["optimizer"].zero_grad()
        torch.nn.functional.cross_entropy(names["model"](inputs), labels).backward()
        names["optimizer"].step()
    exec(after, names)  # noqa: S102
    printed = [float(number) for number in capsys.readouterr().out.split()]
    lower, upper = bounds_of([(SubsampledGaussian(1.1, 0.25), 4)])
    assert printed == [upper, lower, upper]


@marked
def test_a_run_that_continues_from_a_checkpoint_spends_as_much_as_one_without_a_break(tmp_path: Path) -> None:
    whole, first = Training(), Training()
    for _ in range(2):
        whole.epoch()
    first.epoch()
    path = tmp_path / "checkpoint.pt"
    first.engine.save_checkpoint(path=path, module=first.model, optimizer=first.optimizer)
    saved = list(first.accountant.history)
    resumed = Training(seed=1)
    resumed.engine.load_checkpoint(path=path, module=resumed.model, optimizer=resumed.optimizer)
    assert resumed.accountant.history == saved == [(NOISE, RATE, STEPS_OF_EPOCH)]
    resumed.epoch()
    assert resumed.accountant.history == whole.accountant.history
    assert resumed.engine.get_epsilon(DELTA) == whole.engine.get_epsilon(DELTA)
    assert resumed.accountant.epsilon_bounds(DELTA).lower == whole.accountant.epsilon_bounds(DELTA).lower
    assert first.accountant.history == saved


@marked
def test_noise_that_changes_is_a_phase_of_its_own() -> None:
    run = Training()
    run.epoch()
    run.optimizer.noise_multiplier = 0.9
    run.epoch()
    assert run.accountant.history == [(NOISE, RATE, STEPS_OF_EPOCH), (0.9, RATE, STEPS_OF_EPOCH)]
    rounds = [(SubsampledGaussian(noise, RATE), STEPS_OF_EPOCH) for noise in (NOISE, 0.9)]
    lower, upper = bounds_of(rounds)
    told = run.accountant.epsilon_bounds(DELTA)
    assert (told.lower, told.upper) == (pytest.approx(lower, rel=2e-3), pytest.approx(upper, rel=2e-3))
    assert told.lower <= upper
    assert lower <= told.upper


@marked
def test_batches_in_parts_are_counted_once() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    run = Training()
    with BatchMemoryManager(data_loader=run.loader, max_physical_batch_size=4, optimizer=run.optimizer) as loader:
        for inputs, labels in loader:
            run.optimizer.zero_grad()
            run.loss(run.model(inputs), labels).backward()
            run.optimizer.step()
    assert run.steps == STEPS_OF_EPOCH
    assert run.accountant.history == [(NOISE, RATE, STEPS_OF_EPOCH)]


@marked
def test_several_batches_in_one_step_are_refused() -> None:
    """In a loop of one's own: under Poisson sampling Opacus refuses them itself."""
    from opacus.optimizers import DPOptimizer

    from pbdist.accounting.opacus import OpacusAccountant

    run, accountant = Training(), OpacusAccountant()
    inner, size = run.optimizer.original_optimizer, BATCH
    optimizer = DPOptimizer(inner, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=size)
    hook = accountant.get_optimizer_hook_fn(RATE)
    for parameter in optimizer.params:
        parameter.grad_sample = [parameter.data[None], parameter.data[None]]
    with pytest.raises(InvalidInputError, match="expected a step for each batch, got one for 2"):
        hook(optimizer)
    assert accountant.history == []


@marked
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": BATCH, "shuffle": True}, "those of BatchSampler of RandomSampler: leave poisson_sampling=True"),
        ({"batch_size": BATCH}, "those of BatchSampler of SequentialSampler"),
        ({"batch_size": None}, "those of no sampler"),
    ],
)
def test_loaders_that_do_not_draw_poisson_samples_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"expected batches that are Poisson samples, got {named}"):
        Training(poisson_sampling=False, loader=options)
    # All that Opacus makes of them are.
    if options["batch_size"]:
        Training(loader=options)


@marked
def test_a_loader_that_draws_more_is_counted_as_it_draws() -> None:
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    sampler = UniformWithReplacementSampler(num_samples=EXAMPLES, sample_rate=0.5, steps=STEPS_OF_EPOCH)
    run = Training(poisson_sampling=False, loader={"batch_sampler": sampler})
    run.epoch()
    assert run.accountant.history == [(NOISE, 0.5, STEPS_OF_EPOCH)]


@marked
@pytest.mark.parametrize("batch", [20, 23, 70])
def test_epochs_are_counted_as_dpsgd_counts_them(batch: int) -> None:
    """The last batch of an epoch is a step too."""
    run = Training(loader={"batch_size": batch})
    for _ in range(2):
        run.epoch()
    training = dpsgd(examples=EXAMPLES, batch=batch, noise_multiplier=NOISE, epochs=2, delta=DELTA)
    assert training.training.steps == (run.steps,) == (2 * -(-EXAMPLES // batch),)
    # Both are upper bounds; where the rates are the same, either may be a little larger.
    assert run.engine.get_epsilon(DELTA) <= training.epsilon.upper.item() * (1.0 + 1e-3)


@marked
def test_opacus_calibrates_with_it() -> None:
    run = Training(target_epsilon=3.0, target_delta=DELTA, epochs=2)
    for _ in range(2):
        run.epoch()
    assert 3.0 - 0.01 <= run.engine.get_epsilon(DELTA) <= 3.0


@marked
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.1, 1 / 12, 24), (0.7, 0.01, 300), (2.0, 0.2, 60)])
def test_their_prv_accountant_is_not_below_our_lower_bound(noise: float, rate: float, steps: int) -> None:
    from opacus.accountants import create_accountant

    from pbdist.accounting import opacus as ours

    ours.register()
    told = {}
    for name in ("pbdist", "prv"):
        accountant = create_accountant(name)
        accountant.history = [(noise, rate, steps)]
        told[name] = accountant
    assert told["pbdist"].epsilon_bounds(DELTA).lower <= told["prv"].get_epsilon(delta=DELTA)
    assert told["pbdist"].get_epsilon(DELTA) <= told["prv"].get_epsilon(delta=DELTA)


@marked
def test_no_noise_is_no_privacy() -> None:
    run = Training(noise_multiplier=0.0)
    run.epoch()
    assert run.engine.get_epsilon(DELTA) == math.inf
    assert run.accountant.epsilon_bounds(0.5).lower >= 1e8


@marked
def test_states_are_checked_and_not_shared() -> None:
    from pbdist.accounting.opacus import OpacusAccountant

    accountant = OpacusAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    state = accountant.state_dict()
    assert state == {"history": [(1.0, 0.1, 1)], "mechanism": "pbdist"}
    other = OpacusAccountant()
    other.load_state_dict(state)
    other.step(noise_multiplier=1.0, sample_rate=0.1)
    assert state["history"] == [(1.0, 0.1, 1)]
    assert other.history == [(1.0, 0.1, 2)]
    for wrong, text in [
        (None, "empty"),
        ({"history": []}, "mechanism"),
        ({"mechanism": "pbdist"}, "history"),
        ({"history": [], "mechanism": "prv"}, "prv"),
        ({"history": [(1.0, 0.1)], "mechanism": "pbdist"}, "expected .noise multiplier, sampling rate, steps"),
        ({"history": [(1.0, 0.1, -1)], "mechanism": "pbdist"}, "count: expected a whole number from 0"),
        ({"history": [(-1.0, 0.1, 1)], "mechanism": "pbdist"}, "noise_multiplier: expected a number above 0"),
        ({"history": [(1.0, 0.0, 1)], "mechanism": "pbdist"}, "sample_rate"),
        ({"history": [(math.nan, 0.1, 1)], "mechanism": "pbdist"}, "finite"),
    ]:
        with pytest.raises(ValueError, match=text):
            other.load_state_dict(wrong)
        assert other.history == [(1.0, 0.1, 2)]


@marked
@pytest.mark.parametrize(("noise", "rate"), [(-1.0, 0.1), (1.0, 0.0), (1.0, 1.5), (math.inf, 0.1), ("1", 0.1)])
def test_a_wrong_step_is_refused_and_not_counted(noise: Any, rate: float) -> None:
    from pbdist.accounting.opacus import OpacusAccountant

    accountant = OpacusAccountant()
    with pytest.raises(InvalidInputError, match=r"^(noise_multiplier|sample_rate): "):
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert accountant.history == []
