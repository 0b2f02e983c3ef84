"""What a dump must name of the odd values that its calls were given."""


def check(dump, values, *calls):
    """`dump` has the call of each pattern (`Cell.inner.Inner.forward.{}`) for each of the odd values, in their order,
    and names what it lacks of them, and nothing else."""
    names = {call.name for call in dump.calls}
    for i, (word, odd) in enumerate(values.items()):
        for call in (pattern.format(i) for pattern in calls):
            assert call in names, (word, call)
            logged = [line for line in dump.missing if line.startswith(f"{call} ")]
            for part in ("input.1", "kwargs.named", "output.1"):
                of_part = [line for line in logged if line.startswith(f"{call} {part}")]
                assert any(odd.named in line for line in of_part) if odd.named else not of_part, (word, part, logged)
