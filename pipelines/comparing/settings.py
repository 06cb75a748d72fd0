"""Every setting that is compared: ordinary ones, and corners where somebody is wrong."""

from pipelines.comparing.setting import Setting, dp_sgd, gaussian, laplace, pure

__all__ = ["SETTINGS"]

_COUNT = (
    "`PLDAccountant` ignores the count of a randomized response event: it answers for one round. The other call, of the"
    " same library, composes the same loss distribution."
)
_REPLACED = (
    "A sum of values of norm at most C moves by up to 2C where one value is replaced, and dp-accounting defines the"
    " noise multiplier as σ/C. Its `PLDAccountant` accounts for that, its `RdpAccountant` does not."
)
_DOMAIN = (
    "prv-accountant's `PureDPMechanism.rdp` returns (α - 1)ε₀/α, which is below the Rényi divergence. The domain that"
    " is chosen by it is too small: losses are folded round to its other end."
)
_TRANSFORMS = "No transform's rounding is bounded in dp-accounting: where δ is tiny and r large it decides the answer."

#: Every setting, in the order of the page.
SETTINGS: tuple[Setting, ...] = (
    dp_sgd(
        3.0,
        0.2,
        50,
        "1 / 48_000",
        note="Opacus issue 643: the limit theorem is no bound.",
    ),
    dp_sgd(4.0, 0.01, 65_536, "1e-5", note="The setting of the moments accountant's evaluation in 2018."),
    dp_sgd(4.0, 0.01, 65_536, "1e-12", note=_TRANSFORMS + " A finer grid makes it worse: the other call.", fine=True),
    dp_sgd(1.0, 0.001, 10_000, "1e-6"),
    dp_sgd(0.5, 0.001, 1_000, "1e-5", note="Little noise: a few steps decide, so the limit theorem is far off."),
    dp_sgd(0.5, 0.001, 1_000, "1e-12"),
    dp_sgd(10.0, 0.99, 100, "1e-5", note="Nearly all records in each step."),
    dp_sgd(1.021, 0.00038, 524_288, "1e-14", note=_TRANSFORMS),
    dp_sgd(2.0, 0.005, 300_000, "1e-12", note=_TRANSFORMS),
    dp_sgd(
        1.0,
        1e-8,
        1_000_000,
        "1e-6",
        note="One record in 10^8. *Our own bracket is wide here*; the libraries are farther off: losses far below their"
        " grids cost them much, and Rényi divergences more.",
    ),
    gaussian(20.0, 256, "20.0 / 16", delta="1e-5"),
    gaussian(
        20.0,
        256,
        "",
        note="dp-accounting's optimistic estimate is above the truth: the mass 1e-15 that it cuts off counts as mass at"
        " infinite losses, as in the pessimistic one. prv-accountant's `compute_delta` answers with what is left of"
        " rounding, a negative number.",
        epsilon="7.0",
    ),
    gaussian(
        1e16,
        1,
        "1e16",
        note="δ(0) is 4e-17, above the target. dp-accounting's closed form takes the difference of two logarithms"
        " that are equal in float64. Its loss distributions say 0 as well.",
        delta="1e-18",
    ),
    gaussian(1e8, 1, "1e8", note="The same closed form keeps six digits.", delta="1e-10"),
    gaussian(1.0, 1, "1.0", note="A denormal number, the smallest float.", delta="5e-324"),
    Setting(
        name="Gaussian, σ 20, one record replaced, r 256, δ 1e-5",
        mechanism="Gaussian(20.0, sensitivity=2.0)",
        compositions=256,
        delta="1e-5",
        event="GaussianDpEvent(20.0)",
        relation="NeighboringRelation.REPLACE_ONE",
        leaves=(("from_gaussian_mechanism(20.0, sensitivity=2.0{})", 1),),
        prv=(("GaussianMechanism(20.0, l2_sensitivity=2.0)", 1),),
        gaussian="20.0 / 2 / 16",
        note=_REPLACED,
    ),
    Setting(
        name="Laplace, scale 20, one record replaced, r 256, δ 1e-5",
        mechanism="Laplace(20.0, sensitivity=2.0)",
        compositions=256,
        delta="1e-5",
        event="LaplaceDpEvent(20.0)",
        relation="NeighboringRelation.REPLACE_ONE",
        leaves=(("from_laplace_mechanism(20.0, sensitivity=2.0{})", 1),),
        prv=(("LaplaceMechanism(2 / 20.0)", 1),),
        note=_REPLACED,
    ),
    laplace(20.0, 256, note="The theorem of 2015 is all but exact here.", delta="1e-5"),
    laplace(20.0, 256, note="The optimistic estimate never falls below 1e-15.", epsilon="8.0"),
    laplace(1541.0, 32_768, note=_TRANSFORMS, delta="1e-13"),
    Setting(
        name="discrete Laplace, scale 20, r 256, δ 1e-5",
        mechanism="DiscreteLaplace(20.0)",
        compositions=256,
        delta="1e-5",
        event="DiscreteLaplaceDpEvent(1 / 20.0, 1)",
        leaves=(("from_discrete_laplace_mechanism(1 / 20.0{})", 1),),
    ),
    Setting(
        name="discrete Gaussian, σ 20, r 256, ε 0",
        mechanism="DiscreteGaussian(20.0)",
        compositions=256,
        epsilon="0.0",
        rdp_event="ZCDpEvent(0.5 / 20.0**2)",
        leaves=(("from_discrete_gaussian_mechanism(20.0{})", 1),),
        other="from_discrete_gaussian_mechanism(20.0, use_connect_dots=True).self_compose(256)"
        ".get_delta_for_epsilon(0.0)",
        note="By default every loss is rounded up to the grid of 1e-4. The other call connects the dots.",
    ),
    Setting(
        name="discrete Gaussian, σ 200, r 8,192, δ 1e-13",
        mechanism="DiscreteGaussian(200.0)",
        compositions=8_192,
        delta="1e-13",
        rdp_event="ZCDpEvent(0.5 / 200.0**2)",
        leaves=(("from_discrete_gaussian_mechanism(200.0{})", 1),),
        other="from_discrete_gaussian_mechanism(200.0, use_connect_dots=True).self_compose(8_192)"
        ".get_epsilon_for_delta(1e-13)",
        note=_TRANSFORMS + " The other call connects the dots, so that no rounding of losses hides it.",
    ),
    Setting(
        name="randomized response, 2/3 noise, r 10, δ 1e-5",
        mechanism="RandomizedResponse(2 / 3)",
        compositions=10,
        delta="1e-5",
        event="RandomizedResponseDpEvent(2 / 3, 2)",
        relation="NeighboringRelation.REPLACE_ONE",
        leaves=(("from_randomized_response(2 / 3, 2{})", 1),),
        other="from_randomized_response(2 / 3, 2).self_compose(10).get_epsilon_for_delta(1e-5)",
        prv=(("PureDPMechanism(log(2))", 1),),
        note=_COUNT,
    ),
    Setting(
        name="randomized response, noise 1 - 2^-28, r 2^30, δ 1e-5",
        mechanism="RandomizedResponse(0.5 + 2.0**-29)",
        compositions=2**30,
        delta="1e-5",
        event="RandomizedResponseDpEvent(1 - 2.0**-28, 2)",
        relation="NeighboringRelation.REPLACE_ONE",
        left_out={"clt": "left out: our own code for the limit loses losses below 1e-8 in rounding"},
        note="Divergences of 1e-17 are lost in the rounding of 1 plus them: some come out negative. `RdpAccountant`"
        " takes those for 0, with a warning in its log. " + _COUNT,
    ),
    pure(1, 50, _DOMAIN + " " + _COUNT),
    pure(5, 40, _DOMAIN + " " + _COUNT),
    pure(1, 1_000, _DOMAIN + " " + _COUNT),
    Setting(
        name="(0.1, 1e-6)-DP, r 100, δ 1e-3",
        mechanism="ApproximateDP(0.1, 1e-6)",
        compositions=100,
        delta="1e-3",
        leaves=(("from_privacy_parameters(DifferentialPrivacyParameters(0.1, 1e-6))", 1),),
        prv=(("ApproximateDPMechanism(0.1, 1e-6)", 1),),
    ),
    Setting(
        name="(1, 1e-8)-DP, r 50, δ 1e-5",
        mechanism="ApproximateDP(1.0, 1e-8)",
        compositions=50,
        delta="1e-5",
        leaves=(("from_privacy_parameters(DifferentialPrivacyParameters(1.0, 1e-8))", 1),),
        prv=(("ApproximateDPMechanism(1.0, 1e-8)", 1),),
        note=_DOMAIN,
    ),
    Setting(
        name="Laplace 200 cut at ±2500, r 512, δ 1e-3",
        mechanism="Laplace(200.0, truncate=(-2500.0, 2500.0))",
        compositions=512,
        delta="1e-3",
        note="Neither library has truncated noise of real values.",
    ),
    Setting(
        name="Gaussian 200√2 cut at ±2500, r 512, δ 1e-4",
        mechanism="Gaussian(200.0 * sqrt(2.0), truncate=(-2500.0, 2500.0))",
        compositions=512,
        delta="1e-4",
    ),
    Setting(
        name="Vuvuzela's dialing, mean 8,000, Laplace 500, r 1,024, ε ln 2",
        mechanism="NoisyCount(Laplace(500.0), 8_000.0, 2)",
        compositions=1_024,
        epsilon="log(2)",
        leaves=(("from_two_probability_mass_functions(*DIALING, symmetric=False{})", 1),),
        note="dp-accounting is given the probabilities of the counts, by the closed form of the Laplace distribution."
        " Without `symmetric=False` it computes one direction only.",
    ),
    Setting(
        name="2020 Census, δ 1e-10",
        mechanism="[(DiscreteGaussian(sqrt(5 / (3.65 * share))), 10) for share in SHARES]",
        compositions=1,
        delta="1e-10",
        rdp_event="ComposedDpEvent([ZCDpEvent(0.365 * share) for share in SHARES for _ in range(10)])",
        leaves=tuple(
            (f"from_discrete_gaussian_mechanism(sqrt(5 / (3.65 * SHARES[{level}])){{}})", 10) for level in range(8)
        ),
        note="Eight levels, ten noises each; the paper reports ε = 20.838545. `RdpAccountant` is given each noise's ρ.",
    ),
    Setting(
        name="64 Gaussians, 64 Laplace, 1,000 steps of DP-SGD, δ 1e-6",
        mechanism="[(Gaussian(20.0), 64), (Laplace(30.0), 64), (SubsampledGaussian(2.0, 0.01), 1000)]",
        compositions=1,
        delta="1e-6",
        event="ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(20.0), 64),"
        " SelfComposedDpEvent(LaplaceDpEvent(30.0), 64),"
        " SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 1000)])",
        leaves=(
            ("from_gaussian_mechanism(20.0{})", 64),
            ("from_laplace_mechanism(30.0{})", 64),
            ("from_gaussian_mechanism(2.0, sampling_prob=0.01{})", 1000),
        ),
        note="Theorems that know one (ε, δ) of each pair get ε in proportion to the pairs' largest losses. Other shares"
        " would serve them better here.",
        prv=(
            ("GaussianMechanism(20.0)", 64),
            ("LaplaceMechanism(1 / 30.0)", 64),
            ("PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=2.0)", 1000),
        ),
    ),
)
