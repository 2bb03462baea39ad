"""Data sets that statsmodels ships, with a Domain from their codebooks."""

from __future__ import annotations

import math

from statsmodels.datasets import fair, randhie

from dpstats.datasets.base import Dataset
from dpstats.domain import Domain


def load_randhie() -> Dataset:
    """Load the RAND Health Insurance Experiment: visits to a doctor in a year, 20,190 rows, from statsmodels.

    Returns
    -------
    Dataset
        The count is ``mdvis``. Its declared range is a judgement made beforehand (at most one visit a week, more are
        clipped), as is that of the disease index ``disea``.

    References
    ----------
    .. [1] Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: methods and applications. Cambridge.

    Examples
    --------
    >>> from dpstats.datasets import load_randhie
    >>> load_randhie().data.shape
    (20190, 10)
    """
    yes_no = (0, 1)
    return Dataset(
        name="RAND Health Insurance Experiment",
        data=randhie.load_pandas().data,
        domain=Domain(
            mdvis=(0, 52),
            lncoins=(0, math.log(101)),  # log of one plus a coinsurance rate of 0 to 100 per cent
            idp=yes_no,
            lpi=(0, 8),  # log of a yearly incentive payment of at most about $3,000
            fmde=(0, math.log(4_000)),  # log of a maximum of $1,000 over a coinsurance rate of at least 25 per cent
            physlm=yes_no,
            disea=(0, 60),
            hlthg=yes_no,
            hlthf=yes_no,
            hlthp=yes_no,
        ),
        citation=(
            "Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: methods and applications. Cambridge; "
            "data collected by the RAND Corporation; statsmodels.datasets.randhie"
        ),
        licence="public domain",
        description="Outpatient visits to a doctor in a year, insurance plan and health of participants.",
    )


def load_fair() -> Dataset:
    """Load Fair's survey of extramarital affairs, 6,366 rows, from statsmodels.

    Returns
    -------
    Dataset
        The response is ``affairs``, time spent in affairs; its declared range is a judgement made beforehand. All other
        columns are coded answers, whose ranges the questionnaire gives.

    References
    ----------
    .. [1] Fair, R. (1978). A theory of extramarital affairs. Journal of Political Economy 86, 45-61.

    Examples
    --------
    >>> from dpstats.datasets import load_fair
    >>> load_fair().data.shape
    (6366, 9)
    """
    return Dataset(
        name="Fair's affairs survey",
        data=fair.load_pandas().data,
        domain=Domain(
            rate_marriage=(1, 5),
            age=(17.5, 42),
            yrs_married=(0.5, 23),
            children=(0, 5.5),
            religious=(1, 4),
            educ=(9, 20),
            occupation=(1, 6),
            occupation_husb=(1, 6),
            affairs=(0, 60),
        ),
        citation=(
            "Fair, R. (1978). A theory of extramarital affairs. Journal of Political Economy 86, 45-61; "
            "statsmodels.datasets.fair"
        ),
        licence="included in statsmodels with permission of the author",
        description="Answers of married women to a magazine survey of 1974; time spent in extramarital affairs.",
    )
