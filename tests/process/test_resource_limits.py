"""The resource limits of the kernel for the limits of a config."""

import pytest

from exthost.model.spec import Limits
from exthost.process.resource_limits import CPU, ceiling, resource_limits


@pytest.mark.parametrize(("cpu", "seconds"), [(0.2, 1), (1, 1), (2.5, 3), (3.5, 4), (4, 4)])
def test_a_limit_of_processor_time_is_never_rounded_down(cpu: float, seconds: int) -> None:
    (limit,) = resource_limits(Limits(cpu=cpu), None)
    assert (limit.resource, limit.soft, limit.hard) == (CPU, seconds, seconds + 1)
    assert ceiling(Limits(cpu=cpu), None).cpu == seconds
