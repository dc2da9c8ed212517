"""What the demo's page is called; by it the command knows its own page."""

TITLE = "Digits with wrong labels (keras_likelihood demo)"
