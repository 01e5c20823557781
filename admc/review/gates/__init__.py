"""Gates: limits of what a change may bring, in `shop.gates.adm` beside `shop.adm`.

    text --read--> Gate

`admc.review.diff.gates` judges gates by a difference.
"""
