"""Error messages of commands with wrong input."""

from keras_likelihood import cli


def refusal(capsys, *arguments, statuses=(1, 2)) -> str:
    """The one line on stderr with which a command fails.

    Fails if the command ends without this line or with another exit status. A
    bug in the command does not count as a refusal.
    """
    capsys.readouterr()
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    lines = capsys.readouterr().err.splitlines()
    assert status in statuses, (status, lines)
    assert len(lines) == 1, lines
    assert "unexpected" not in lines[0]
    return lines[0]
