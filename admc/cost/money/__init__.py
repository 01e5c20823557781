"""Converts an estimate into money by the prices that the user gives: admc has no prices of its own.

file of prices --price_list--> PriceList       report, PriceList --bill--> Bill --text--> lines
"""
