"""The command `msprobe report`: one page of whatever its sides hold."""
