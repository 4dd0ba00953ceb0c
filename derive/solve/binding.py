"""Until every branch imports from `derive.solve.values`: the name that stood here."""

from derive.solve.values import value_of as value_of
