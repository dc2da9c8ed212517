"""The title of the demo's page, by which the command recognises it."""

TITLE = "Digits with wrong labels (keras_likelihood demo)"
