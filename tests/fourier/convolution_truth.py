"""Exact convolutions of float64 vectors, and the shapes that the kernel is tried on."""

import flint
import numpy as np

#: Every float64 is a whole multiple of 2 to the minus this.
UNIT_BITS = 1074


def integers(values):
    """The float64 values as exact integers, in units of 2^-1074."""
    result = []
    for value in values.tolist():
        numerator, denominator = value.as_integer_ratio()
        result.append(numerator << (UNIT_BITS - denominator.bit_length() + 1))
    return result


def exact_convolution(x, y):
    """Exact convolution in units of 2^-2148."""
    first = flint.fmpz_poly(integers(x))
    product = first * (first if x is y else flint.fmpz_poly(integers(y)))
    coefficients = [int(c) for c in product.coeffs()]
    return coefficients + [0] * (x.size + y.size - 1 - len(coefficients))


def assert_within_bound(values, bound, exact):
    """Not one element is further from the exact one than its bound says."""
    assert values.shape == bound.shape == (len(exact),)
    for value, limit, truth in zip(integers(values), integers(bound), exact, strict=True):
        assert abs((value << UNIT_BITS) - truth) <= limit << UNIT_BITS


def assert_relatively_accurate(values, exact, *, error, reach=1e-290):
    """Relative error of all elements of at least `reach` times the largest; both are ratios of whole numbers."""
    least = max(exact) * round(reach * 2**1000) >> 1000
    inverse = round(1.0 / error)
    for value, truth in zip(integers(values), exact, strict=True):
        if truth >= least:
            assert abs((value << UNIT_BITS) - truth) * inverse <= truth


def _with_atoms(size):
    values = np.full(size, 1e-4)
    values[0], values[-1] = 0.5, 0.3
    return values


def _two_atoms(size):
    values = np.zeros(size)
    values[size // 3], values[-1] = 0.4, 0.6
    return values


def _sparse(size, random):
    values = np.zeros(size)
    count = max(1, size // 50)
    values[random.integers(0, size, count)] = random.random(count)
    return values


def _with_gaps(size, position):
    values = np.exp(-400.0 * np.abs(position - 0.3))
    values[size // 5 : size // 2] = 0.0
    values[size - 1] = 1e-200
    return values


def projected_bytes(size_x, size_y):
    """Upper bound on the memory that `convolve` takes above its two arguments, its results included.

    Of each vector, padded to whole chunks: 16 bytes an element for values and bound, 16 for spectra; again for the
    finer cut, of which few spectra are ever held; 8 for what is taken on the way. The estimate is rounded up.
    """
    chunked = 72 * (size_x + size_y + max(size_x, size_y) // 4)
    return max(chunked, 8 * 5 * (size_x + size_y)) + (1 << 24)


#: Each from the size, the positions -1 .. 1 and a random generator.
_SHAPES = {
    "gaussian": lambda _, p, __: np.exp(-30.0 * p**2),
    "narrow gaussian": lambda _, p, __: np.exp(-600.0 * p**2),
    "widest gaussian": lambda _, p, __: np.exp(-690.0 * p**2),
    "two-sided exponential": lambda _, p, __: np.exp(-690.0 * np.abs(p)),
    "falling": lambda _, p, __: np.exp(-340.0 * (1.0 + p)),
    "atoms and a flat middle": lambda n, _, __: _with_atoms(n),
    "two atoms": lambda n, _, __: _two_atoms(n),
    "two peaks": lambda _, p, __: np.exp(-4000.0 * (p - 0.7) ** 2) + 1e-30 * np.exp(-900.0 * (p + 0.6) ** 2),
    "uniform random": lambda n, _, random: random.random(n),
    "300 orders of magnitude": lambda n, _, random: 10.0 ** random.uniform(-300.0, 0.0, n),
    "sparse": lambda n, _, random: _sparse(n, random),
    "gaps": lambda n, p, _: _with_gaps(n, p),
    "constant": lambda n, _, __: np.full(n, 1.0 / n),
    "denormal": lambda n, _, random: random.random(n) * 1e-308,
    "huge": lambda n, _, random: random.random(n) * 1e150,
}

SHAPES = list(_SHAPES)


def shape(name, size, random):
    """A vector of that shape."""
    return _SHAPES[name](size, np.linspace(-1.0, 1.0, size), random)
