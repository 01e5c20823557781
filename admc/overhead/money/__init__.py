"""What sidecars cost in money: by prices that the user gives, since admc has none of its own."""
