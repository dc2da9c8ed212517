"""How a command ends when it is given something wrong."""

from keras_likelihood import cli


def refusal(capsys, *arguments) -> str:
    """The one line on stderr with which a command ends.

    Fails if the command ends otherwise than with exit status 2 and that
    line.
    """
    capsys.readouterr()
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    lines = capsys.readouterr().err.splitlines()
    assert status == 2, (status, lines)
    assert len(lines) == 1, lines
    return lines[0]
