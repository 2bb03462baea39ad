"""Attributes that are computed once and kept, without a lock.

Python 3.11's `functools.cached_property` computes under a lock that all objects of a class share, and a process that is
forked while another thread computes inherits it locked: whoever asks for the attribute there waits for ever.
"""

from __future__ import annotations

import functools
from typing import TypeVar, cast

Value = TypeVar("Value")


class cached_property(functools.cached_property[Value]):
    """As functools has it; threads that ask at the same time may each compute the value, and all get the first one."""

    def __get__(self, instance: object, owner: type | None = None) -> Value:  # type: ignore[override]
        if instance is None:
            return cast(Value, self)
        assert self.attrname is not None
        values = instance.__dict__
        if self.attrname not in values:
            values.setdefault(self.attrname, self.func(instance))
        return cast(Value, values[self.attrname])
