"""How good a profile predicts: sidecars that are drawn after it was written, measured beside its predictions.

    profile, its digest -> seed -> `draw` -> `measure`, each twice -> `predict` and naive predictors -> `judge`

Hotel reservation, compiled and full, is measured as in suite `cost` (`hotel`).
"""
