"""Why a decision moved: the changes of the input without which it would not have."""
