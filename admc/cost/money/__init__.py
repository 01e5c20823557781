"""What ADMs cost in money, by prices that the user gives: admc has none of its own.

file of prices --price_list--> PriceList       report, PriceList --bill--> Bill --text--> lines
"""
