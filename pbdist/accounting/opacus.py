"""Give Opacus an accountant of certified bounds: ``register()``, then ``PrivacyEngine(accountant="pbdist")``."""

from pbdist.errors import MissingDependencyError

#: What the accountant is called in Opacus, if nothing else is said.
NAME = "pbdist"


def register() -> None:
    """Register the accountant with Opacus under the name "pbdist"; where it is registered, nothing changes.

    Then ``PrivacyEngine(accountant="pbdist")`` counts with it, as do ``opacus.accountants.create_accountant`` and
    ``make_private_with_epsilon``. `pbdist.accounting.opacus_accountant.OpacusAccountant` is its class.

    Raises
    ------
    MissingDependencyError
        Opacus is not installed.

    Examples
    --------
    >>> from pbdist.accounting import opacus
    >>> opacus.register()  # doctest: +SKIP
    >>> engine = PrivacyEngine(accountant="pbdist")  # doctest: +SKIP
    """
    try:
        from opacus.accountants import register_accountant  # noqa: PLC0415 -- an optional package

        from pbdist.accounting.opacus_accountant import OpacusAccountant  # noqa: PLC0415 -- it imports Opacus
    except ImportError as error:
        raise MissingDependencyError("an accountant for Opacus needs it: pip install 'pbdist[opacus]'") from error
    register_accountant(NAME, OpacusAccountant, force=True)
