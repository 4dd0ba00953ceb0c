"""Until every branch imports from `derive.commands.inputs`: the name that stood here."""

from derive.commands.inputs import set_values as set_values
