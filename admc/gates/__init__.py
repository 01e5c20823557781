"""Gates: what a change may bring, in `shop.gates.adm` beside `shop.adm`."""
