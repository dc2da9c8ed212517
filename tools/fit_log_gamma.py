"""Fits the series of `keras_likelihood.likelihoods.special`.

Run as `python tools/fit_log_gamma.py`. Two remainders of log G(a), which are
known to 40 digits, are `u P(u^2)` with `u = 1 / a` and a polynomial P. P is the
interpolant at Chebyshev's nodes for all a from 3 on.
"""

import mpmath as mp
import numpy as np

TERMS, START = 8, 3


def stirling(a):
    return mp.loggamma(a) - (a - mp.mpf(0.5)) * mp.log(a) + a


def half_step(a):
    return mp.log(a) / 2 + mp.loggamma(a) - mp.loggamma(a + mp.mpf(0.5))


def main():
    nodes = np.cos(np.pi * (np.arange(TERMS) + 0.5) / TERMS)
    with mp.workdps(40):
        u = [mp.sqrt((mp.mpf(x) + 1) / 2) / START for x in nodes]
        constant = mp.log(2 * mp.pi) / 2
        for function, limit in (stirling, constant), (half_step, 0):
            values = [(function(1 / x) - limit) / x for x in u]
            rows = mp.matrix([[x ** (2 * k) for k in range(TERMS)] for x in u])
            found = mp.lu_solve(rows, mp.matrix(values))
            print([float(mp.nstr(x, 14)) for x in found])


if __name__ == "__main__":
    main()
