import sys

from keras_likelihood.cli import main

sys.exit(main())
