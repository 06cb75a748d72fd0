"""Look for hostile cases as long as one likes: ``python -m tests.hostile.soak --seed N --seconds S``.

Each thing that is wrong is printed with the call that shows it; the last line counts them by kind.
"""

import argparse
import signal
import time
from collections import Counter
from types import FrameType

from tests.hostile.cases import Draw
from tests.hostile.checks import WRONG, Finding, Report, check
from tests.hostile.curves import check_epsilon, check_tradeoff

#: Seconds after which a case is given up.
_LONGEST = 60


class TooLongError(BaseException):
    """A case takes too long; nothing that is tested may catch it."""


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise TooLongError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--asked", type=int, default=6, help="ε of a call")
    parser.add_argument("--look", choices=("delta", "epsilon", "tradeoff"), help="only at that")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong, not what is slow or refused")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    report, number, counts = Report(), 0, Counter[str]()
    started = time.monotonic()
    while time.monotonic() - started < options.seconds:
        signal.alarm(_LONGEST)
        try:
            look = "delta" if number % 10 < 8 else "epsilon" if number % 10 == 8 else "tradeoff"
            look = options.look or look
            draw = Draw([options.seed, number])
            if look == "delta":
                check(draw, report, options.asked)
            else:
                (check_epsilon if look == "epsilon" else check_tradeoff)(draw, report)
        except TooLongError:
            report.findings.append(Finding("hang", f"case([{options.seed}, {number}])", f"over {_LONGEST} s"))
        finally:
            signal.alarm(0)
        number += 1
        told = set()
        for finding in report.findings:
            counts[finding.kind] += 1
            # The same of many ε is told once.
            new = finding.kind not in told
            told.add(finding.kind)
            if new and (finding.kind in (*WRONG, "hang", "wide", "needless") or not options.quiet):
                print(f"{options.seed},{number - 1} {finding}", flush=True)
        report.findings.clear()
    print(
        f"{number} settings, {report.calls} calls, {report.cases} cases, {report.undecided} undecided by the truth,"
        f" {report.refusals} refusals; findings: {dict(counts)}"
    )
    return 1 if any(kind in counts for kind in (*WRONG, "hang")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
