module admc.test/bench/cost

go 1.24
