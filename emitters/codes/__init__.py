"""What `admc explain CODE` says of the findings of the emitters."""
