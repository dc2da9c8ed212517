"""The commands of `keras-likelihood`, one in each file."""
