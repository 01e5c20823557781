"""The texts of `admc explain CODE` for the findings of the emitters."""
