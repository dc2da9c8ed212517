"""How a command ends when it is given something wrong."""

from keras_likelihood import cli


def refusal(capsys, *arguments, statuses=(1, 2)) -> str:
    """The one line on stderr with which a command ends.

    Fails if the command ends otherwise than with that line and one of the
    exit statuses. A fault of the command itself is no refusal.
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
