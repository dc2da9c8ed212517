"""The commands of `keras-likelihood`, one file each."""
