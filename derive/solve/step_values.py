"""Until every branch imports from `derive.solve.values`: the names that stood here."""

from derive.solve.values import SETTABLE as SETTABLE
from derive.solve.values import SOURCE_OF_NOTEBOOK as SOURCE_OF_NOTEBOOK
from derive.solve.values import check_values as check_values
from derive.solve.values import facts_of as facts_of
