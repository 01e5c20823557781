"""Gates: what a change may bring, in `shop.gates.adm` beside `shop.adm`.

    text --read--> Gate

`admc.review.diff.gates` judges them by a difference.
"""
